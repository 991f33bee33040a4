import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { openUploadsMax } from './dataset-uploads.service.ts'
import { createDraft, makeImage, openUpload, postFile } from './datasets.fixture.ts'

let platform: TestPlatform
let developer: TestClient
beforeAll(async () => {
  platform = await startTestPlatform({ PLATFORM_MLOPS_DATASET_QUOTA_BYTES: '100000' })
  developer = await platform.member('default', 'DEVELOPER')
})
afterAll(() => platform?.stop())

describe('POST /api/v1/datasets/{dataset_id}/uploads', () => {
  test('413 before anything is sent for what the dataset has no room for, and says how much it has', async () => {
    const id = await createDraft(developer)
    await postFile(developer, id, 'a.bin', Buffer.alloc(40_000))
    const open = (size: number) => developer.post(`/api/v1/datasets/${id}/uploads`, { filename: 'b', size })
    const refused = await open(60_001)
    expect(refused.status).toBe(413)
    expect(refused.body.detail).toEqual({ reason: 'quota_exceeded', room_bytes: 60_000 })
    expect((await open(60_000)).status).toBe(201)
  })

  test('409 when too many are under way; another is taken when one has gone', async () => {
    const id = await createDraft(developer)
    const uploads = `/api/v1/datasets/${id}/uploads`
    const { upload_id } = await openUpload(developer, id, Buffer.alloc(1))
    for (let more = 1; more < openUploadsMax; more++) await openUpload(developer, id, Buffer.alloc(1))
    const refused = await developer.post(uploads, { filename: 'b', size: 1 })
    expect(refused.status).toBe(409)
    expect(refused.body.detail).toEqual({ reason: 'too_many_uploads', max: openUploadsMax })
    expect((await developer.get(uploads)).body.total).toBe(openUploadsMax)
    expect((await developer.delete(`${uploads}/${upload_id}`)).status).toBe(204)
    expect((await developer.post(uploads, { filename: 'b', size: 1 })).status).toBe(201)
  })
})

describe('GET /api/v1/datasets/{dataset_id}/files/{file_id}/content', () => {
  test('404 instead of a preview of a file that would fill the memory', async () => {
    const id = await createDraft(developer)
    const { file_id } = (await postFile(developer, id, 'a.jpg', await makeImage())).body
    await transaction(platform.services.db, 'system', (tx) =>
      sql`update dataset_files set size = 600000000, status = 'PENDING' where id = ${file_id}`.execute(tx),
    )
    const reply = await developer.get(`/api/v1/datasets/${id}/files/${file_id}/content?variant=preview`)
    expect(reply.status).toBe(404)
  })
})
