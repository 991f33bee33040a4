import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { killableWorkers } from '../../../test/killable-workers.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { createDraft, makeImage, makeZip, openUpload, putChunk, uploadEnded } from './datasets.fixture.ts'

let platform: TestPlatform
let developer: TestClient
beforeAll(async () => {
  // Requests are answered here; the work is done by processes that can be killed.
  platform = await startTestPlatform({ PLATFORM_MLOPS_ROLES: 'web' })
  developer = await platform.member('default', 'DEVELOPER')
})
afterAll(() => platform?.stop())

const startWorker = killableWorkers(() => platform)

/** Whether the worker got that far in a step of the upload's run. */
async function reached(upload: string, stepId: string, progress: number): Promise<boolean> {
  const row = await transaction(platform.services.db, 'system', (tx) =>
    tx
      .selectFrom('runSteps as s')
      .innerJoin('runs as r', 'r.id', 's.runId')
      .select(['s.state', 's.progress'])
      .where('r.subject', '=', `upload:${upload}`)
      .where('s.stepId', '=', stepId)
      .executeTakeFirst(),
  )
  return row?.state === 'succeeded' || (row?.state === 'running' && row.progress >= progress)
}

describe('kill -9 of the worker that assembles an upload', () => {
  test('at any point: every file is there once, with the bytes that were sent', { timeout: 180_000 }, async () => {
    const files: Record<string, Buffer> = {}
    for (let i = 0; i < 600; i++) files[`train/${i % 3}/${i}.jpg`] = await makeImage({ width: 120, height: 90 })
    const zip = await makeZip(files)
    const dataset = await createDraft(developer)
    const { upload_id: upload } = await openUpload(developer, dataset, zip, { chunk_size: 1 << 20 })
    for (let i = 0; i << 20 < zip.length; i++)
      await putChunk(developer, dataset, upload, i, zip.subarray(i << 20, (i + 1) << 20))
    await developer.post(`/api/v1/datasets/${dataset}/uploads/${upload}:complete`)
    for (const [step, progress] of [
      ['unpack', 0.2],
      ['unpack', 0.7],
      ['validate', 0],
    ] as const) {
      const worker = startWorker()
      await eventually(() => reached(upload, step, progress), 60)
      worker.kill('SIGKILL')
    }
    startWorker()
    const session = await uploadEnded(developer, dataset, upload)
    expect(session).toMatchObject({ state: 'done', result: { created: 600, skipped_total: 0 } })
    const { body } = await developer.get(`/api/v1/datasets/${dataset}`)
    expect(body).toMatchObject({ status: 'READY', file_count: 600, splits: { train: 600 }, validation: { errors: 0 } })
    const digests = new Map<string, string>()
    for (const page of [1, 2, 3]) {
      const { items } = (await developer.get(`/api/v1/datasets/${dataset}/files?page=${page}&page_size=200`)).body
      for (const { path, digest } of items) digests.set(path, digest)
    }
    for (const [path, content] of Object.entries(files))
      expect(digests.get(path)).toBe(`sha256:${createHash('sha256').update(content).digest('hex')}`)
  })
})
