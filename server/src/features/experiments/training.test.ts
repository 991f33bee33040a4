import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { insertFrozenDataset } from '../../../test/frozen-dataset.ts'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'

const python = ['python3', '/usr/bin/python3'].find(
  (candidate) => spawnSync(candidate, ['-c', 'import torch, torchvision, numpy, PIL']).status === 0,
)
const path = '/api/v1/training/experiments'
const quick = 'epochs: 2\nimage_size: 16\nbatch_size: 8\n'
const endless = 'epochs: 10000\nimage_size: 16\nbatch_size: 8\n'

let platform: TestPlatform
let developer: TestClient
beforeAll(async () => {
  platform = await startTestPlatform({
    PLATFORM_MLOPS_TRAINER_PYTHON: python ?? '/nowhere',
    PLATFORM_MLOPS_TRAINER_THREADS: '1',
  })
  const tenant = await platform.tenant('acme')
  developer = await platform.member('acme', 'DEVELOPER')
  await insertFrozenDataset(platform.services, tenant.id, 'colours')
})
afterAll(() => platform?.stop())

const body = (name: string, more: object = {}) => ({
  task: 'image_classification',
  framework: 'torchvision',
  model: 'small_cnn',
  dataset_id: 'colours',
  experiment_name: name,
  hyperparameters: quick,
  ...more,
})

const create = async (name: string, more: object = {}): Promise<string> => {
  const reply = await developer.post(path, body(name, more))
  expect(reply.status, reply.text).toBe(202)
  return reply.body.id
}

const reached = (id: string, ...states: string[]) =>
  eventually(async () => {
    const { body: experiment } = await developer.get(`${path}/${id}`)
    if (['FAILED', ...states].includes(experiment.state)) return experiment
    return null
  }, 90)

describe.skipIf(!python)('a training', () => {
  test('goes through every step, and its result is measured, kept and registered', { timeout: 120_000 }, async () => {
    const id = await create('Red, green, blue')
    const experiment = await reached(id, 'SUCCEEDED')
    expect(experiment.error).toBeNull()
    expect(experiment).toMatchObject({
      state: 'SUCCEEDED',
      model_version: { name: 'Red-green-blue', version: '1' },
      progress: { percent: 100, epochs: 2 },
      environment: { python: expect.any(String), torch: expect.stringMatching(/^\d/) },
    })
  })
})
