import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { killableWorkers } from '../../../test/killable-workers.ts'
import { type SourceServer, startBucket } from '../../adapters/external-sources/source-server.fixture.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { createDraft, digestOf } from './followed-datasets.fixture.ts'

const key = { id: 'AKIA1', secret: 'crash-proof' }
const sourceEnv = { PLATFORM_MLOPS_SOURCE_ALLOWED_HOSTS: '127.0.0.1' }
let platform: TestPlatform
let admin: TestClient
let bucket: SourceServer
beforeAll(async () => {
  bucket = await startBucket('pictures', key)
  // Requests are answered here; the work is done by processes that can be killed.
  platform = await startTestPlatform({ PLATFORM_MLOPS_ROLES: 'web', ...sourceEnv })
  admin = await platform.member('default', 'ADMIN')
})
afterAll(async () => {
  await platform?.stop()
  await bucket?.close()
})

const startWorker = killableWorkers(() => platform, sourceEnv)

/** Rows of `dataset_sync_runs` are what a client sees; the steps say where the worker is. */
async function reached(run: string, stepId: string, progress: number): Promise<boolean> {
  const row = await transaction(platform.services.db, 'system', (tx) =>
    tx
      .selectFrom('runSteps')
      .select(['state', 'progress'])
      .where('runId', '=', run)
      .where('stepId', '=', stepId)
      .executeTakeFirst(),
  )
  return row?.state === 'succeeded' || (row?.state === 'running' && row.progress >= progress)
}

describe('kill -9 of the worker that syncs', () => {
  test('at any point: every object is one file, counted once, and what is gone is removed', {
    timeout: 900_000,
  }, async () => {
    for (let i = 0; i < 800; i++) bucket.put(`set/${String(i).padStart(4, '0')}.txt`, `file ${i}`)
    const { body: source } = await admin.post('/api/v1/external-sources', {
      name: 'bucket',
      kind: 's3',
      config: { bucket: 'pictures', endpoint: bucket.url, prefix: 'set' },
      credentials: { access_key_id: key.id, secret_access_key: key.secret },
    })
    const dataset = await createDraft(admin)
    const sync = `/api/v1/datasets/${dataset}/sync`
    await admin.put(sync, { source_id: source.id, delete_missing: true })

    const ended = (run: string) =>
      eventually(async () => {
        const { body } = await admin.get(sync)
        return body.run_id === run && body.state !== 'RUNNING' && body
      }, 150)
    const syncThroughCrashes = async (points: (readonly [string, number])[]) => {
      const { run_id: run } = (await admin.post(sync)).body
      for (const [stepId, progress] of points) {
        const worker = startWorker()
        await eventually(() => reached(run, stepId, progress), 150)
        worker.kill('SIGKILL')
        expect((await admin.get(`/api/v1/datasets/${dataset}`)).body.status).toMatch(/SYNCING|VALIDATING|READY/)
      }
      startWorker()
      return ended(run)
    }

    const first = await syncThroughCrashes([
      ['list', 0],
      ['fetch', 0.05],
      ['fetch', 0.5],
    ])
    expect(first).toMatchObject({
      state: 'DONE',
      error: null,
      counts: { added: 800, updated: 0, removed: 0, failed: 0, skipped: 0 },
    })
    expect((await admin.get(`/api/v1/datasets/${dataset}`)).body.file_count).toBe(800)

    for (let i = 0; i < 400; i++) bucket.files.delete(`set/${String(i).padStart(4, '0')}.txt`)
    bucket.put('set/0500.txt', 'new')
    const second = await syncThroughCrashes([
      ['fetch', 0],
      ['remove', 0],
    ])
    expect(second).toMatchObject({
      state: 'DONE',
      counts: { added: 0, updated: 1, removed: 400, unchanged: 399, failed: 0 },
    })
    const { items, total } = (await admin.get(`/api/v1/datasets/${dataset}/files?q=0500.txt`)).body
    expect([total, items[0].digest]).toEqual([1, digestOf('new')])
    await eventually(async () => (await admin.get(`/api/v1/datasets/${dataset}`)).body.status !== 'VALIDATING', 150)
    expect((await admin.get(`/api/v1/datasets/${dataset}`)).body).toMatchObject({
      file_count: 400,
      validation_status: expect.stringMatching(/PASSED|FAILED/),
    })
  })
})
