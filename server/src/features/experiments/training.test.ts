import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { getModelVersion } from '../models/models.api.ts'
import { getTrackerRun } from '../tracker/tracker.api.ts'
import {
  ended,
  endless,
  experimentsPath,
  follow,
  python,
  quick,
  type StreamEvent,
  startTraining,
  startTrainingPlatform,
  stepStates,
  type TrainingPlatform,
  underWay,
} from './training.fixture.ts'

let site: TrainingPlatform
let platform: TestPlatform
let developer: TestClient
let tenant: TrainingPlatform['tenant']
beforeAll(async () => {
  site = await startTrainingPlatform()
  ;({ platform, developer, tenant } = site)
})
afterAll(() => site?.stop())

describe.skipIf(!python)('a training', { timeout: 600_000 }, () => {
  let id = ''
  let events: StreamEvent[] = []

  test('GET /api/v1/training/experiments/{experiment_id}/steps shows it go through every step, and its result is measured, kept and registered', async () => {
    // Behind a first one, so that the stream is there before anything happens.
    const first = await startTraining(developer, 'Blocker', endless)
    id = await startTraining(developer, 'Red, green, blue', quick, { split: { seed: 3 } })
    const following = follow(platform.url, developer, id)
    await developer.post(`${experimentsPath}/${first}/stop`)
    events = await following
    const { body: experiment } = await developer.get(`${experimentsPath}/${id}`)
    expect(experiment).toMatchObject({
      state: 'SUCCEEDED',
      error: null,
      model_version: { name: 'Red-green-blue', version: '1' },
      progress: { percent: 100, epochs: 2 },
      metrics: { 'test/top1': expect.any(Number) },
      environment: { python: expect.any(String), torch: expect.stringMatching(/^\d/) },
    })
    expect(stepStates(experiment)).toEqual(
      ['prepare', 'stage', 'load', 'train', 'evaluate', 'export', 'verify', 'register'].map((n) => `${n} SUCCEEDED`),
    )
    const { body: steps } = await developer.get(`${experimentsPath}/${id}/steps`)
    expect(steps).toEqual({ items: experiment.steps, total: 8 })
  })

  test('GET /api/v1/training/experiments/{experiment_id}/logs tells of states, steps, progress, metrics and log lines', async () => {
    const of = (name: string) => events.filter((event) => event.name === name).map((event) => event.data)
    expect(events[0]).toMatchObject({ name: 'connected', data: { channel: `experiments:${id}` } })
    expect(of('experiment')).toEqual(['STAGING', 'RUNNING', 'SUCCEEDED'].map((state) => ({ id, state })))
    expect(of('step')).toContainEqual(expect.objectContaining({ name: 'train', state: 'SUCCEEDED', progress: 1 }))
    expect(of('progress').at(-1)).toEqual({ percent: 100, epoch: 2, epochs: 2 })
    const points = of('metrics').flatMap((data) => data.points)
    expect(points.filter(({ key }) => key === 'val/top1').map(({ step }) => step)).toEqual([1, 2])

    const log = (await developer.get(`${experimentsPath}/${id}/log`)).text
    const lines = of('log')
    expect(lines.flatMap((event) => event.lines).join('\n')).toBe(log.trimEnd())
    for (const event of lines) {
      const at = Buffer.from(log).subarray(event.offset).toString()
      expect(at.startsWith(event.lines.join('\n'))).toBe(true)
    }
  })

  test('GET /api/v1/training/experiments/{experiment_id}/metrics gives epochs by default and what is asked for by key', async () => {
    const { body: all } = await developer.get(`${experimentsPath}/${id}/metrics`)
    expect(all.keys).toEqual(expect.arrayContaining(['train/loss', 'val/top1', 'test/top1']))
    expect(all.keys.join()).not.toContain('batch_')
    const loss = all.series.find((series: { key: string }) => series.key === 'train/loss')
    expect(loss).toMatchObject({ total: 2, downsampled: false, points: [{ step: 1 }, { step: 2 }] })
    const { body: some } = await developer.get(
      `${experimentsPath}/${id}/metrics?keys=train/batch_loss,unknown&max_points=9999`,
    )
    expect(some).toMatchObject({ keys: ['train/batch_loss'], max_points: 5000 })
    expect((await developer.get(`${experimentsPath}/${id}/metrics?max_points=-1`)).status).toBe(422)
  })

  test('GET /api/v1/training/experiments/{experiment_id}/log is a text file', async () => {
    const reply = await developer.get(`${experimentsPath}/${id}/log`)
    expect(reply.headers.get('content-disposition')).toContain(`attachment; filename="experiment-${id}.log"`)
    expect(reply.text.match(/^Epoch \d of 2/gm)).toEqual(['Epoch 1 of 2', 'Epoch 2 of 2'])
    expect(reply.text).toContain('Registered as Red-green-blue version 1.')
  })

  test('GET /api/v1/training/experiments/{experiment_id}/launch shows what ran, and not where on this machine', async () => {
    const reply = await developer.get(`${experimentsPath}/${id}/launch`)
    expect(reply.body).toMatchObject({
      environment: { OMP_NUM_THREADS: '1', HOME: `$DATA_DIR/work/experiments/${id}/home` },
      pod: { name: `experiment-${id}`, threads: 1 },
      spec: { model: 'small_cnn', seed: 3, device: 'cpu', hyperparameters: { epochs: 2, image_size: 16 } },
    })
    expect(reply.text).not.toContain(platform.dataDir)
    expect(reply.body.environment.PYTHONPATH).toBe('$TRAINER_DIR')
    expect(reply.text).not.toContain('PLATFORM_MLOPS')
  })

  test('GET /api/v1/training/experiments/{experiment_id}/tracker leads to a finished run; the tracker holds it, the model its files, the dataset an ended use', async () => {
    const { body: link } = await developer.get(`${experimentsPath}/${id}/tracker`)
    const ctx = { tenant, actor: { email: 'test' } as never, clock: platform.services.clock }
    await transaction(platform.services.db, { tenantId: tenant.id }, async (tx) => {
      expect(await getTrackerRun(tx, ctx, link.tracker_run_id)).toMatchObject({
        status: 'FINISHED',
        name: link.run_name,
      })
      const version = await getModelVersion(tx, ctx as never, 'red-green-blue', '1')
      expect(version.files.map((file) => file.path).toSorted()).toEqual(['MLmodel', 'model.json', 'model.onnx'])
      expect(version).toMatchObject({ classes: ['blue', 'green', 'red'], architecture: 'small_cnn' })
      for (const { digest, size } of version.files)
        expect(await platform.services.blobs.stat(digest)).toEqual({ digest, size })
      const usage = await tx.selectFrom('datasetUsage').select('state').where('experimentId', '=', id).execute()
      expect(usage).toEqual([{ state: 'ended' }])
    })
  })

  test('whoever asked for it is told', async () => {
    const { body } = await developer.get('/api/v1/notifications?unread=true')
    expect(body.items).toContainEqual(
      expect.objectContaining({
        group: 'training',
        title: 'Red, green, blue is trained',
        body: 'Registered as Red-green-blue version 1.',
        link: `/experiments/${id}`,
      }),
    )
  })

  test('what only the training needed is gone, what the next one can use is there', async () => {
    expect(existsSync(join(platform.dataDir, 'work/experiments', id, 'output/checkpoints/last.pt'))).toBe(false)
    const cache = await readdir(join(platform.dataDir, 'cache/datasets'))
    const [uses] = cache.filter((name) => name.endsWith('.uses'))
    expect(await readdir(join(platform.dataDir, 'cache/datasets', uses!))).not.toContain(id)
    expect(cache.filter((name) => /^sha256-[0-9a-f]{64}$/.test(name))).toHaveLength(1)
  })
})

describe.skipIf(!python)('POST /api/v1/training/experiments/{experiment_id}/stop', { timeout: 600_000 }, () => {
  test('200 and the best checkpoint so far becomes the model; 409 for a second stop', async () => {
    const id = await startTraining(developer, 'Stopped', endless)
    await underWay(developer, id)
    const reply = await developer.post(`${experimentsPath}/${id}/stop`)
    expect(reply.body).toMatchObject({ state: 'STOPPING', stop_requested_at: expect.any(String) })
    const again = await developer.post(`${experimentsPath}/${id}/stop`)
    expect(again).toMatchObject({ status: 409, body: { detail: { state: expect.stringMatching(/STOP/) } } })
    const experiment = await ended(developer, id)
    expect(experiment).toMatchObject({
      state: 'STOPPED',
      error: null,
      model_version: { name: 'Stopped', version: '1' },
    })
    expect(experiment.best_epoch).toBeGreaterThan(0)
  })

  test('200 ends one that waits at once, without a model, however long the one in front of it takes', async () => {
    const running = await startTraining(developer, 'In front', endless)
    const [waiting, killed] = [
      await startTraining(developer, 'Waiting', quick),
      await startTraining(developer, 'Third', quick),
    ]
    expect((await developer.get(`${experimentsPath}/${waiting}`)).body.state).toBe('PENDING')
    const { body: experiment } = await developer.post(`${experimentsPath}/${waiting}/stop`)
    expect(experiment).toMatchObject({
      state: 'STOPPED',
      model_version: null,
      error: null,
      ended_at: expect.any(String),
    })
    expect(new Set(experiment.steps.map(({ state }: { state: string }) => state))).not.toContain('PENDING')
    const kill = await platform.admin.post(`/api/v1/training/admin/experiments/${killed}/kill`)
    expect(kill.body).toEqual({ id: killed, state: 'KILLED' })
    expect((await developer.delete(`${experimentsPath}/${killed}`)).status).toBe(200)
    await developer.post(`${experimentsPath}/${running}/stop`)
    await ended(developer, running)
    // Its run, which comes up now, changes nothing any more.
    const last = await startTraining(developer, 'Behind', quick)
    await ended(developer, last)
    const { body: later } = await developer.get(`${experimentsPath}/${waiting}`)
    expect(later).toMatchObject({ state: 'STOPPED', ended_at: experiment.ended_at })
  })
})

describe.skipIf(!python)('POST /api/v1/training/admin/experiments/{experiment_id}/kill', { timeout: 600_000 }, () => {
  test('200 ends the job at once with nothing registered, and again changes nothing', async () => {
    const kill = '/api/v1/training/admin/experiments'
    const id = await startTraining(developer, 'Killed', endless)
    await underWay(developer, id)
    const { body: runtime } = await platform.admin.get('/api/v1/training/admin/runtime')
    expect(runtime).toMatchObject({ slots: 1, threads: 1, running: [{ experiment_id: id, tenant: 'acme' }] })
    const { pid } = runtime.running[0].job
    expect(existsSync(`/proc/${pid}`)).toBe(true)

    expect((await developer.post(`${kill}/${id}/kill`)).status).toBe(403)
    expect((await platform.admin.post(`${kill}/${id}/kill`)).status).toBe(200)
    const experiment = await ended(developer, id)
    expect(experiment).toMatchObject({ state: 'KILLED', model_version: null })
    await eventually(async () => !existsSync(`/proc/${pid}`))
    expect((await platform.admin.post(`${kill}/${id}/kill`)).body).toEqual({ id, state: 'KILLED' })
    expect((await platform.admin.post(`${kill}/00000000-0000-7000-8000-000000000000/kill`)).status).toBe(404)
  })
})
