import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { insertFrozenDataset } from '../../../test/frozen-dataset.ts'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { getRun, startRun } from '../../platform/runs/runs.ts'
import { sweepRun } from './sweep.runs.ts'

const path = '/api/v1/training/experiments'
const unknownId = '00000000-0000-7000-8000-000000000000'

// No Python: every training fails at its first step, which is all that these tests need.
let platform: TestPlatform
let developer: TestClient
let stranger: TestClient
beforeAll(async () => {
  platform = await startTestPlatform({ PLATFORM_MLOPS_TRAINER_PYTHON: '/nowhere/python' })
  const tenant = await platform.tenant('acme')
  await platform.tenant('other')
  developer = await platform.member('acme', 'DEVELOPER')
  stranger = await platform.member('other', 'ADMIN')
  await insertFrozenDataset(platform.services, tenant.id, 'colours', { perClass: 4 })
  await insertFrozenDataset(platform.services, tenant.id, 'draft', { perClass: 4, state: 'READY' })
  await insertFrozenDataset(platform.services, tenant.id, 'lonely', { perClass: 4, classes: ['blue'], tasks: [] })
  await insertFrozenDataset(platform.services, tenant.id, 'boxes', { perClass: 4, tasks: ['object_detection'] })
})
afterAll(() => platform?.stop())

const minimal = {
  task: 'image_classification',
  framework: 'torchvision',
  model: 'small_cnn',
  dataset_id: 'colours',
  experiment_name: 'Ripe or not',
}
const ended = (id: string) =>
  eventually(async () => {
    const { body } = await developer.get(`${path}/${id}`)
    return body.ended_at && body
  })

describe('POST /api/v1/training/experiments', () => {
  test('202 takes the least there is and fills in every default', async () => {
    const reply = await developer.post(`${path}?preset=try-out`, minimal)
    expect(reply.status).toBe(202)
    expect(reply.body).toMatchObject({
      name: 'Ripe or not',
      state: expect.stringMatching(/PENDING|STAGING|FAILED/),
      preset: 'try-out',
      dataset: { id: 'colours', name: 'Colours colours' },
      classes: ['blue', 'green', 'red'],
      effective_hyperparameters: { optimizer: 'adamw' },
      tracker_run_id: expect.stringMatching(/^[0-9a-f]{32}$/),
      created_by: developer.email,
    })
    expect(reply.body.config).toEqual({
      ...minimal,
      pretrained: { source: 'none' },
      cache_dataset: true,
      classes: [],
      split: { mode: 'predefined', validation_fraction: 0.1, train: 0.8, val: 0.1, test: 0.1, seed: 0 },
      hyperparameters: '',
      evaluation: { split: 'test' },
      export: { format: 'onnx', opset: 17 },
      serving: { replicas: 1, gpu: 0 },
      runtime_variant: null,
      runtime_image: null,
      runtime_shared: false,
      gpu: 0,
      register_model: true,
      register_model_name: 'Ripe-or-not',
    })
    expect(reply.body.steps.map(({ name }: { name: string }) => name)).toEqual([
      'prepare',
      'stage',
      'load',
      'train',
      'evaluate',
      'export',
      'verify',
      'register',
    ])
  })

  test.each<[string, object, (string | number)[], string]>([
    ['an unknown framework', { framework: 'paper' }, ['framework'], 'allowed: torchvision'],
    ['a framework without the task', { task: 'object_detection' }, ['framework'], 'this release has none'],
    ['an unknown model', { model: 'resnet' }, ['model'], 'resnet18'],
    ['an unknown task', { task: 'cooking' }, ['task'], 'must be one of image_classification'],
    ['an unknown dataset', { dataset_id: 'nothing' }, ['dataset_id'], 'no FROZEN dataset'],
    ['a dataset that is not frozen', { dataset_id: 'draft' }, ['dataset_id'], 'no FROZEN dataset'],
    ['a dataset of another shape', { dataset_id: 'boxes' }, ['dataset_id'], 'it fits object_detection'],
    ['a dataset of one class', { dataset_id: 'lonely' }, ['dataset_id'], 'has one class alone, blue'],
    ['an unknown class', { classes: ['red', 'pink'] }, ['classes'], 'not in the dataset: pink'],
    ['one class', { classes: ['red'] }, ['classes'], 'at least two'],
    ['a class twice', { classes: ['red', 'red'] }, ['classes'], 'twice'],
    ['broken YAML', { hyperparameters: 'epochs: [1' }, ['hyperparameters'], 'not valid YAML'],
    ['no epochs', { hyperparameters: 'epochs: 0' }, ['hyperparameters', 'epochs'], 'must lie between 1 and 10000'],
    ['an unknown key', { hyperparameters: 'epoch: 1' }, ['hyperparameters', 'epoch'], 'allowed: epochs'],
    ['shares beyond one', { split: { mode: 'ratio', train: 0.9 } }, ['split'], 'add up to 1'],
    ['a runtime image', { runtime_image: 'x:1' }, ['runtime_image'], 'no runtime images'],
    ['two GPUs', { gpu: 2 }, ['gpu'], 'must be <= 1'],
    ['a blank name', { experiment_name: '  ' }, ['experiment_name'], 'must not be blank'],
    ['a model name with a slash', { register_model_name: 'a/b' }, ['register_model_name'], 'at most 128 letters'],
  ])('422 names the field for %s', async (_what, change, where, message) => {
    const reply = await developer.post(path, { ...minimal, ...change })
    expect(reply.status).toBe(422)
    expect(reply.body.detail[0]).toMatchObject({ loc: ['body', ...where], msg: expect.stringContaining(message) })
  })

  test('422 keeps a dataset of another tenant unknown', async () => {
    const reply = await stranger.post(path, minimal)
    expect(reply.body.detail[0]).toMatchObject({
      loc: ['body', 'dataset_id'],
      msg: expect.stringContaining('no FROZEN'),
    })
  })

  test('a platform that finds no Python says so and what to do', async () => {
    const { body } = await developer.post(path, { ...minimal, experiment_name: 'No Python' })
    const experiment = await ended(body.id)
    expect(experiment).toMatchObject({ state: 'FAILED', model_version: null })
    expect(experiment.error).toMatchObject({
      step: 'prepare',
      reason: 'platform',
      message: expect.stringMatching(/TRAINER_PYTHON is \/nowhere\/python/),
    })
    expect(experiment.steps[0]).toMatchObject({ name: 'prepare', state: 'FAILED' })
  })
})

describe('GET /api/v1/training/experiments', () => {
  test('200 lists newest first, pages, filters by status and searches', async () => {
    for (const name of ['Alpha', 'Beta 100%', 'Gamma'])
      await ended((await developer.post(path, { ...minimal, experiment_name: name })).body.id)
    const names = async (query: string) =>
      (await developer.get(`${path}?${query}`)).body.items.map(({ name }: { name: string }) => name)
    expect((await names('')).slice(0, 3)).toEqual(['Gamma', 'Beta 100%', 'Alpha'])
    expect((await names('sort=name')).slice(0, 2)).toEqual(['Alpha', 'Beta 100%'])
    expect(await names('q=100%25')).toEqual(['Beta 100%'])
    expect(await names('q=colours%20COLOURS&page_size=1&page=2')).toEqual(['Beta 100%'])
    expect(await names('status=SUCCEEDED')).toEqual([])
    expect(await names('status=FAILED&q=alpha')).toEqual(['Alpha'])
    expect((await developer.get(`${path}?status=TIRED`)).status).toBe(422)
    expect((await developer.get(`${path}?sort=colour`)).body.detail).toEqual({
      allowed: ['created_at', 'name', 'status'],
    })
    expect((await stranger.get(path)).body).toMatchObject({ items: [], total: 0 })
  })
})

describe('an experiment of another tenant', () => {
  test('404 on every address, the same as one that does not exist', async () => {
    const { id } = (await developer.post(path, minimal)).body
    const wanted: [string, string][] = [
      ['GET', ''],
      ['GET', '/steps'],
      ['GET', '/log'],
      ['GET', '/logs'],
      ['GET', '/metrics'],
      ['GET', '/tracker'],
      ['GET', '/launch'],
      ['POST', '/stop'],
      ['DELETE', ''],
    ]
    for (const [method, rest] of wanted) {
      const foreign = await stranger.call(method, `${path}/${id}${rest}`)
      const unknown = await developer.call(method, `${path}/${unknownId}${rest}`)
      expect([foreign.status, unknown.status], `${method} ${rest}`).toEqual([404, 404])
      expect({ ...foreign.body, error_id: 0 }).toEqual({ ...unknown.body, error_id: 0 })
    }
    await ended(id)
  })
})

describe('GET /api/v1/training/experiments/{experiment_id}', () => {
  test('304 while nothing has changed; 422 for what is no id', async () => {
    const { id } = await ended((await developer.post(path, minimal)).body.id)
    const first = await developer.get(`${path}/${id}`)
    const headers = { 'if-none-match': first.headers.get('etag')! }
    expect((await developer.get(`${path}/${id}`, { headers })).status).toBe(304)
    expect((await developer.get(`${path}/colours`)).status).toBe(422)
  })
})

describe('GET /api/v1/training/experiments/{experiment_id}/launch', () => {
  test('409 before any job was started', async () => {
    const { id } = await ended((await developer.post(path, minimal)).body.id)
    expect(await developer.get(`${path}/${id}/launch`)).toMatchObject({
      status: 409,
      body: { detail: { state: 'FAILED' } },
    })
  })
})

describe('experiments.sweep', () => {
  test('removes work folders of deleted experiments; of ended ones, what only going on would need', async () => {
    const { id } = await ended((await developer.post(path, minimal)).body.id)
    const folder = (name: string) => join(platform.dataDir, 'work/experiments', name)
    for (const name of [id, unknownId, 'not-ours']) await mkdir(folder(name), { recursive: true })
    const kept = ['output/checkpoints/best.pt', 'spec.json']
    const scratch = ['output/checkpoints/last.pt', 'data/files/a.png']
    for (const file of [...kept, ...scratch]) {
      await mkdir(dirname(join(folder(id), file)), { recursive: true })
      await writeFile(join(folder(id), file), '')
    }
    const { services } = platform
    const runId = await transaction(services.db, 'system', (tx) =>
      startRun(
        tx,
        { ...services, kind: 'system', scope: 'system', actor: null, requestId: '', audit: null },
        sweepRun,
        null,
      ),
    )
    await eventually(() =>
      transaction(services.db, 'system', async (tx) => (await getRun(tx, runId)).state === 'succeeded'),
    )
    expect([id, unknownId, 'not-ours'].map((name) => existsSync(folder(name)))).toEqual([true, false, true])
    const isThere = (file: string) => existsSync(join(folder(id), file))
    expect([kept.filter(isThere), scratch.filter(isThere)]).toEqual([kept, []])
  })
})
