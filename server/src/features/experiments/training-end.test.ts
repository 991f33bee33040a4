import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { insertFrozenDataset } from '../../../test/frozen-dataset.ts'
import type { TestClient, TestPlatform } from '../../../test/harness.ts'
import {
  ended,
  endless,
  experimentsPath,
  python,
  quick,
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

describe.skipIf(!python)('a training that fails', { timeout: 600_000 }, () => {
  test('says at which step, why, and what to do', async () => {
    const instead = (label: string) => (label === 'red' ? Buffer.from('no image') : null)
    await insertFrozenDataset(platform.services, tenant.id, 'broken', { perClass: 4, instead })
    const id = await startTraining(developer, 'Broken images', quick, { dataset_id: 'broken' })
    const experiment = await ended(developer, id)
    expect(experiment).toMatchObject({ state: 'FAILED', model_version: null })
    expect(experiment.error).toMatchObject({
      step: 'load',
      reason: 'trainer',
      message: expect.stringMatching(
        /^5 of 15 images cannot be read, first t\w+\/red\/\d\.png: damaged, or of a format/,
      ),
      remedy: expect.stringContaining('Remove or replace the broken files'),
      exit_code: 1,
    })
    expect(experiment.error.log_tail.join('\n')).toContain('cannot be read')
    expect(stepStates(experiment)).toContain('load FAILED')
    expect(stepStates(experiment)).toContain('register SKIPPED')
  })

  test('names the memory limit that it went over', async () => {
    const small = await startTrainingPlatform({ PLATFORM_MLOPS_TRAINING_MEMORY_BYTES: '60000000' })
    try {
      const failed = await ended(small.developer, await startTraining(small.developer, 'Too large', quick))
      expect(failed).toMatchObject({ state: 'FAILED' })
      expect(failed.error).toMatchObject({ reason: 'memory', message: expect.stringContaining('60000000 bytes') })
    } finally {
      await small.stop()
    }
  })
})

describe.skipIf(!python)('DELETE /api/v1/training/experiments/{experiment_id}', { timeout: 600_000 }, () => {
  test('409 while it runs; 200 afterwards removes record, log, tracker run and work folder', async () => {
    const split = { mode: 'ratio', train: 0.5, val: 0.25, test: 0.25 }
    const id = await startTraining(developer, 'To be deleted', endless, {
      register_model: false,
      cache_dataset: false,
      split,
    })
    await underWay(developer, id)
    const log = (await developer.get(`${experimentsPath}/${id}/log`)).text
    expect(log).toMatch(/images: (?=.*30 train)(?=.*15 val)(?=.*15 test)/)
    const early = await developer.delete(`${experimentsPath}/${id}`)
    expect(early).toMatchObject({ status: 409, body: { detail: { state: 'RUNNING' } } })
    await developer.post(`${experimentsPath}/${id}/stop`)
    expect(await ended(developer, id)).toMatchObject({ state: 'STOPPED', model_version: null })

    const folder = join(platform.dataDir, 'work/experiments', id)
    expect(existsSync(folder)).toBe(true)
    expect((await developer.delete(`${experimentsPath}/${id}`)).body).toEqual({ id, deleted: true })
    expect(existsSync(folder)).toBe(false)
    for (const rest of ['', '/log', '/steps', '/metrics']) {
      expect((await developer.get(`${experimentsPath}/${id}${rest}`)).status).toBe(404)
    }
    expect((await developer.delete(`${experimentsPath}/${id}`)).status).toBe(404)
  })
})
