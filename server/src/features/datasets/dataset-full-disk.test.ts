import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { createDraft, eventuallyUpload, makeZip, openUpload, putChunk, uploadEnded } from './datasets.fixture.ts'

const run = promisify(execFile)
const megabyte = 1 << 20

/** A disk of 24 MiB, where the system lets us have one. */
async function mountDisk(): Promise<string | null> {
  const folder = await mkdtemp(join(tmpdir(), 'full-disk-'))
  try {
    await run('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', folder])
    return folder
  } catch {
    await rm(folder, { recursive: true })
    return null
  }
}

const disk = await mountDisk()
const temporaryFolder = process.env.TMPDIR
let platform: TestPlatform
let developer: TestClient
beforeAll(async () => {
  if (!disk) return
  process.env.TMPDIR = disk
  platform = await startTestPlatform()
  developer = await platform.member('default', 'DEVELOPER')
})
afterAll(async () => {
  await platform?.stop()
  if (temporaryFolder === undefined) delete process.env.TMPDIR
  else process.env.TMPDIR = temporaryFolder
  if (!disk) return
  await run('umount', ['-l', disk])
  await rm(disk, { recursive: true, force: true })
})

describe.skipIf(!disk)('a full disk', { timeout: 120_000 }, () => {
  /** Takes most of what is left. */
  const ballast = () => join(disk!, 'ballast')

  test('507 for a chunk that finds no room; the session takes it when there is room again', async () => {
    await writeFile(ballast(), randomBytes(14 * megabyte))
    const id = await createDraft(developer)
    const content = randomBytes(16 * megabyte)
    const { upload_id: upload } = await openUpload(developer, id, content, { chunk_size: 4 * megabyte })
    const send = (index: number) =>
      putChunk(developer, id, upload, index, content.subarray(index * 4 * megabyte, (index + 1) * 4 * megabyte))
    expect((await send(0)).status).toBe(200)
    const refused = [(await send(1)).status, (await send(2)).status, (await send(3)).status]
    expect(refused).toContain(507)
    await rm(ballast())
    for (const index of [1, 2, 3]) expect((await send(index)).status).toBe(200)
    await developer.post(`/api/v1/datasets/${id}/uploads/${upload}:complete`)
    const { state, result } = await uploadEnded(developer, id, upload)
    expect(state).toBe('done')
    const file = await developer.get(`/api/v1/datasets/${id}/files/${result.file_ids[0]}`)
    expect(file.body.size).toBe(content.length)
    await developer.delete(`/api/v1/datasets/${id}?force=true`)
    await rm(join(platform.dataDir, 'blobs', 'sha256'), { recursive: true })
  })

  test('an assembly without room gives the session back whole, to be completed again', async () => {
    const files: Record<string, Buffer> = {}
    for (let i = 0; i < 8; i++) files[`${i}.bin`] = randomBytes(megabyte)
    const content = await makeZip(files)
    const id = await createDraft(developer)
    const { upload_id: upload } = await openUpload(developer, id, content, { chunk_size: 32 * megabyte })
    expect((await putChunk(developer, id, upload, 0, content)).status).toBe(200)
    await writeFile(ballast(), randomBytes(12 * megabyte))
    await developer.post(`/api/v1/datasets/${id}/uploads/${upload}:complete`)
    const given = await eventuallyUpload(developer, id, upload, ({ state }) => state !== 'assembling')
    expect(given).toMatchObject({ state: 'open', received: [0], error: { code: 'insufficient_storage' }, result: null })
    expect((await developer.get(`/api/v1/datasets/${id}`)).body).toMatchObject({ status: 'UPLOADING', file_count: 0 })
    await rm(ballast())
    await developer.post(`/api/v1/datasets/${id}/uploads/${upload}:complete`)
    expect(await uploadEnded(developer, id, upload)).toMatchObject({
      state: 'done',
      error: null,
      result: { created: 8 },
    })
    await developer.delete(`/api/v1/datasets/${id}?force=true`)
    await rm(join(platform.dataDir, 'blobs', 'sha256'), { recursive: true })
  })

  test('507 for an archive in one request, of which nothing stays behind', async () => {
    const id = await createDraft(developer)
    const before = await readdir(join(platform.dataDir, 'uploads'))
    await writeFile(ballast(), randomBytes(12 * megabyte))
    const body = new FormData()
    body.set('file', new Blob([(await makeZip({ 'a.bin': randomBytes(8 * megabyte) })) as never]), 'a.zip')
    const reply = await developer.call('POST', `/api/v1/datasets/${id}/archive`, { body })
    expect(reply.status).toBe(507)
    await rm(ballast())
    expect(await readdir(join(platform.dataDir, 'uploads'))).toEqual(before)
    expect((await developer.get(`/api/v1/datasets/${id}`)).body).toMatchObject({ status: 'DRAFT', file_count: 0 })
  })
})
