import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../../test/database.ts'
import { insertFrozenDataset } from '../../../test/frozen-dataset.ts'
import { eventually, type TestClient } from '../../../test/harness.ts'
import { type ServerProcess, startServerProcess } from '../../../test/server-process.ts'
import { fileBlobStore } from '../../platform/blobs/file-blob-store.ts'
import { transaction } from '../../platform/db/transaction.ts'
import {
  ended,
  endless,
  experimentsPath,
  python,
  startTraining,
  trainingSettings,
  underWay,
} from './training.fixture.ts'

const epochs = 200

let database: TestDatabase
let dataDir: string
let server: ServerProcess
let admin: TestClient

async function startAgain(): Promise<void> {
  server = await startServerProcess(database, dataDir, trainingSettings)
  admin = server.admin
}

beforeAll(async () => {
  if (!python) return
  database = await createTestDatabase()
  dataDir = await mkdtemp(join(tmpdir(), 'platform-mlops-'))
  await startAgain()
  const { rows } = await database.pool.query("select id from tenants where code = 'default'")
  const blobs = await fileBlobStore({ folder: join(dataDir, 'blobs') })
  await insertFrozenDataset({ db: database, blobs }, rows[0].id, 'colours')
})
afterAll(async () => {
  if (!server) return
  // Only a test that failed leaves a training.
  const { body } = await admin.get('/api/v1/training/admin/runtime')
  for (const { job } of body.running) if (job.pid) process.kill(-job.pid, 'SIGKILL')
  await server.end('SIGKILL')
  await database.drop()
  await rm(dataDir, { recursive: true, force: true })
})

const create = (name: string) => startTraining(admin, name, `epochs: ${epochs}\nimage_size: 16\nbatch_size: 4\n`)

const jobPid = async () => (await admin.get('/api/v1/training/admin/runtime')).body.running[0].job.pid as number

/** Every epoch is in the log and in the curve exactly once, and so is the model. */
async function expectOnce(id: string): Promise<void> {
  const log = (await admin.get(`${experimentsPath}/${id}/log`)).text
  const told = [...log.matchAll(/^Epoch (\d+) of/gm)].map(([, epoch]) => Number(epoch))
  expect(told).toEqual(Array.from({ length: epochs }, (_, index) => index + 1))
  const { series } = (await admin.get(`${experimentsPath}/${id}/metrics?keys=train/loss&max_points=5000`)).body
  expect(series[0].points.map(({ step }: { step: number }) => step)).toEqual(told)
  const events = (await readFile(join(dataDir, 'work/experiments', id, 'events.jsonl'), 'utf8')).trimEnd().split('\n')
  const points = events.map((line) => JSON.parse(line)).flatMap((event) => event.points ?? [])
  const { body: all } = await admin.get(`${experimentsPath}/${id}/metrics?keys=train/batch_loss,val/loss,test/top1`)
  for (const { key, total } of all.series)
    expect(total, key).toBe(points.filter((point: { key: string }) => point.key === key).length)
  expect(log.match(/^Registered as .*$/gm)).toHaveLength(1)
}

describe.skipIf(!python)('a server that ends in the middle of a training', { timeout: 600_000 }, () => {
  test.each(['SIGKILL', 'SIGTERM'] as const)(
    '%s: the next one takes over the job, and nothing comes twice',
    async (signal) => {
      const id = await create(`Ended by ${signal}`)
      await underWay(admin, id, 2)
      const pid = await jobPid()
      await server.end(signal)
      expect(existsSync(`/proc/${pid}`)).toBe(true)
      await startAgain()
      expect(await jobPid()).toBe(pid)
      await server.end('SIGKILL')
      await startAgain()
      const experiment = await ended(admin, id)
      expect(experiment).toMatchObject({ state: 'SUCCEEDED', error: null, model_version: { version: '1' } })
      await expectOnce(id)
    },
  )

  test('a job that vanished meanwhile goes on from its last checkpoint', async () => {
    const id = await create('Lost with its machine')
    await underWay(admin, id, 5)
    const pid = await jobPid()
    await server.end('SIGKILL')
    await loseJob(pid)
    await startAgain()
    const experiment = await ended(admin, id)
    expect(experiment).toMatchObject({ state: 'SUCCEEDED', error: null, model_version: { version: '1' } })
    const log = (await admin.get(`${experimentsPath}/${id}/log`)).text
    expect(log).toContain('The job vanished')
    expect(log).toMatch(/^Resuming after epoch [1-9]\d*\.$/m)
    const keys = 'train/loss,val/loss,train/batch_loss'
    const { series } = (await admin.get(`${experimentsPath}/${id}/metrics?keys=${keys}&max_points=5000`)).body
    for (const { key, points } of series) {
      const steps = points.map(({ step }: { step: number }) => step)
      expect(steps, key).toEqual([...new Set(steps)])
      if (key !== 'train/batch_loss') expect(steps, key).toHaveLength(epochs)
    }
  })

  test('a stop asked for while it was away is carried out by the next one', async () => {
    const id = await startTraining(admin, 'Stopped later', endless)
    await underWay(admin, id, 2)
    await server.end('SIGKILL')
    await transaction(database, 'system', (tx) =>
      tx
        .updateTable('experiments')
        .set({ state: 'STOPPING', stopRequestedAt: new Date() })
        .where('id', '=', id)
        .execute(),
    )
    await startAgain()
    expect(await ended(admin, id)).toMatchObject({ state: 'STOPPED', error: null, model_version: { version: '1' } })
  })
})

/** Ends the job and the shell that watches it, as a power cut does. */
async function loseJob(pid: number): Promise<void> {
  process.kill(-pid, 'SIGKILL')
  await eventually(async () => !existsSync(`/proc/${pid}`))
}
