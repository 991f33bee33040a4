import { createHash, randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import {
  createDraft,
  makeFlowers,
  makeImage,
  makeZip,
  openUpload,
  putChunk,
  sendUpload,
  uploadEnded,
} from './datasets.fixture.ts'

let platform: TestPlatform
let developer: TestClient
let stranger: TestClient
beforeAll(async () => {
  platform = await startTestPlatform()
  developer = await platform.member('default', 'DEVELOPER')
  await platform.tenant('other')
  stranger = await platform.member('other', 'ADMIN')
})
afterAll(() => platform?.stop())

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

const draft = () => createDraft(developer)
const chunk = (dataset: string, upload: string, index: number, bytes: Uint8Array) =>
  putChunk(developer, dataset, upload, index, bytes)
const open = (dataset: string, content: Buffer, extra: object = {}) => openUpload(developer, dataset, content, extra)
const send = (dataset: string, content: Buffer, extra: object = {}) => sendUpload(developer, dataset, content, extra)
const ended = (dataset: string, upload: string) => uploadEnded(developer, dataset, upload)
const folders = () => readdir(join(platform.dataDir, 'uploads')).catch(() => [])

describe('POST /api/v1/datasets/{dataset_id}/uploads', () => {
  test('201 opens a session whose chunk size rules', async () => {
    const id = await draft()
    const reply = await developer.post(`/api/v1/datasets/${id}/uploads`, { filename: 'a/b/꽃.zip', size: 100_000_000 })
    expect(reply.status).toBe(201)
    expect(reply.body).toMatchObject({
      chunk_size: 33_554_432,
      chunk_count: 3,
      filename: '꽃.zip',
      state: 'open',
      received: [],
      result: null,
      error: null,
    })
    const large = await developer.post(`/api/v1/datasets/${id}/uploads`, { filename: 'a', size: 9, chunk_size: 1e9 })
    expect(large.body.chunk_size).toBe(33_554_432)
    expect((await developer.get(`/api/v1/datasets/${id}`)).body.status).toBe('UPLOADING')
    const list = await developer.get(`/api/v1/datasets/${id}/uploads`)
    expect(list.body).toMatchObject({ total: 2, items: [{ filename: '꽃.zip' }, { filename: 'a' }] })
  })

  test.each([
    ['size', { filename: 'a', size: 0 }],
    ['sha256', { filename: 'a', size: 1, sha256: 'abc' }],
    ['chunk_size', { filename: 'a', size: 100_001, chunk_size: 1 }],
    ['chunk_size', { filename: 'a', size: 100, chunk_size: 0 }],
    ['filename', { filename: '..', size: 1 }],
  ])('422 names %s', async (field, body) => {
    const reply = await developer.post(`/api/v1/datasets/${await draft()}/uploads`, body)
    expect(reply.status).toBe(422)
    expect(reply.body.detail[0].loc).toEqual(['body', field])
  })

  test('404 for a dataset of another tenant, and every step of its upload', async () => {
    const id = await draft()
    const { upload_id: upload } = await open(id, Buffer.alloc(10))
    const paths = [
      ['POST', `/api/v1/datasets/${id}/uploads`, { json: { filename: 'a', size: 1 } }],
      ['GET', `/api/v1/datasets/${id}/uploads`, {}],
      ['GET', `/api/v1/datasets/${id}/uploads/${upload}`, {}],
      ['PUT', `/api/v1/datasets/${id}/uploads/${upload}/chunks/0`, { body: 'abc' }],
      ['POST', `/api/v1/datasets/${id}/uploads/${upload}:complete`, {}],
      ['DELETE', `/api/v1/datasets/${id}/uploads/${upload}`, {}],
    ] as const
    for (const [method, path, options] of paths) expect((await stranger.call(method, path, options)).status).toBe(404)
  })
})

describe('PUT /api/v1/datasets/{dataset_id}/uploads/{upload_id}/chunks/{index}', () => {
  test('200 in any order, in parallel and again, and the file is what was sent', async () => {
    const id = await draft()
    const content = randomBytes(4321)
    const { upload_id: upload } = await open(id, content, { sha256: sha256(content) })
    const part = (index: number) => content.subarray(index * 1000, (index + 1) * 1000)
    await Promise.all([4, 2, 0].map((index) => chunk(id, upload, index, part(index))))
    await chunk(id, upload, 2, randomBytes(1000))
    const missing = await developer.post(`/api/v1/datasets/${id}/uploads/${upload}:complete`)
    expect(missing.status).toBe(409)
    expect(missing.body.detail).toEqual({ missing: [1, 3] })
    await chunk(id, upload, 3, part(3))
    await chunk(id, upload, 2, part(2))
    const last = await chunk(id, upload, 1, part(1))
    expect(last.status).toBe(200)
    expect(last.body).toEqual({ index: 1, received: 5, received_bytes: 4321 })
    await developer.post(`/api/v1/datasets/${id}/uploads/${upload}:complete`)
    const session = await ended(id, upload)
    expect(session).toMatchObject({ state: 'done', error: null, result: { created: 1, skipped: [] } })
    const file = session.result.file_ids[0]
    const download = await fetch(`${platform.url}/api/v1/datasets/${id}/files/${file}/content?tenant=default`, {
      headers: { authorization: `Bearer ${developer.token}` },
    })
    expect(sha256(Buffer.from(await download.arrayBuffer()))).toBe(sha256(content))
    expect((await developer.post(`/api/v1/datasets/${id}/uploads/${upload}:complete`)).status).toBe(202)
    expect((await chunk(id, upload, 0, part(0))).status).toBe(409)
  })

  test('413 for a longer chunk, 400 for a shorter one, 422 for an index outside; the session stays intact', async () => {
    const id = await draft()
    const { upload_id: upload } = await open(id, Buffer.alloc(2500))
    expect((await chunk(id, upload, 0, Buffer.alloc(1001))).status).toBe(413)
    expect((await chunk(id, upload, 2, Buffer.alloc(501))).status).toBe(413)
    const short = await chunk(id, upload, 0, Buffer.alloc(999))
    expect(short.status).toBe(400)
    expect(short.body.detail).toMatchObject({ expected: 1000 })
    expect((await chunk(id, upload, 3, Buffer.alloc(1))).status).toBe(422)
    expect((await chunk(id, upload, -1, Buffer.alloc(1))).status).toBe(422)
    const streamed = new ReadableStream({
      start(controller) {
        controller.enqueue(Buffer.alloc(1500))
        controller.close()
      },
    })
    expect((await chunk(id, upload, 0, streamed as never)).status).toBe(413)
    const { body } = await developer.get(`/api/v1/datasets/${id}/uploads/${upload}`)
    expect(body).toMatchObject({ state: 'open', received: [], received_bytes: 0 })
  })

  test('404 for a session that nobody touched for a day', async () => {
    const id = await draft()
    const { upload_id: upload } = await open(id, Buffer.alloc(10))
    const clock = platform.services.clock as { now(): Date }
    const real = clock.now
    clock.now = () => new Date(Date.now() + 25 * 3600_000)
    try {
      expect((await chunk(id, upload, 0, Buffer.alloc(10))).status).toBe(404)
    } finally {
      clock.now = real
    }
    expect((await chunk(id, upload, 0, Buffer.alloc(10))).status).toBe(200)
  })
})

describe('POST /api/v1/datasets/{dataset_id}/uploads/{upload_id}:complete', () => {
  test('202, and the members of a ZIP become validated files with labels and splits', async () => {
    const id = await draft()
    const files = await makeFlowers()
    const session = await send(id, await makeZip(files), { filename: 'no-zip-by-name' })
    expect(session).toMatchObject({ state: 'done', progress: 1, result: { created: 12, skipped_total: 0 } })
    const { body } = await developer.get(`/api/v1/datasets/${id}`)
    expect(body).toMatchObject({
      status: 'READY',
      format: 'class_folders',
      classes: ['daisy', 'iris'],
      tasks: ['image_classification'],
      splits: { train: 6, test: 6 },
      record_count: 12,
      file_count: 12,
      size_bytes: Object.values(files).reduce((sum, file) => sum + file.length, 0),
      statistics: { images: 12, width: { min: 40, median: 40, max: 40 } },
    })
    const list = await developer.get(`/api/v1/datasets/${id}/files?sort=name&page_size=1`)
    expect(list.body).toMatchObject({
      total: 12,
      items: [{ path: 'flowers/test/daisy/0.jpg', label: 'daisy', split: 'test', status: 'VALID', width: 40 }],
    })
    expect(await folders()).not.toContain(session.upload_id)
  })

  test('the same archive again costs nothing and says so; other content replaces the file', async () => {
    const id = await draft()
    const files = await makeFlowers()
    await send(id, await makeZip(files))
    const again = await send(id, await makeZip(files))
    expect(again.result).toMatchObject({ created: 0, skipped_total: 12, file_ids: [] })
    expect(again.result.skipped[0]).toEqual({ path: 'flowers/test/daisy/0.jpg', reason: 'the dataset has it already' })
    files['flowers/test/daisy/0.jpg'] = await makeImage()
    expect((await send(id, await makeZip(files))).result).toMatchObject({ created: 1, skipped_total: 11 })
    expect((await developer.get(`/api/v1/datasets/${id}`)).body.file_count).toBe(12)
  })

  test('failed with sha256_mismatch, and what was there before stays', async () => {
    const id = await draft()
    await send(id, Buffer.from('good'))
    const session = await send(id, Buffer.from('other bytes'), { sha256: sha256(Buffer.from('expected bytes')) })
    expect(session).toMatchObject({ state: 'failed', result: null, error: { code: 'sha256_mismatch' } })
    const { body } = await developer.get(`/api/v1/datasets/${id}/files`)
    expect(body.items.map((file: { name: string }) => file.name)).toEqual(['upload.bin'])
    const again = await developer.post(`/api/v1/datasets/${id}/uploads/${session.upload_id}:complete`)
    expect(again.status).toBe(409)
    expect(await folders()).not.toContain(session.upload_id)
  })

  test('failed with archive_invalid, and no member of it is registered', async () => {
    const id = await draft()
    const archive = await makeZip({ 'a/1.jpg': await makeImage(), 'xx/evil': Buffer.from('x') })
    const evil = Buffer.from(archive.toString('latin1').replaceAll('xx/evil', '../evil'), 'latin1')
    const session = await send(id, evil)
    expect(session).toMatchObject({ state: 'failed', error: { code: 'archive_invalid' } })
    expect(session.error.message).toContain('../evil')
    expect((await developer.get(`/api/v1/datasets/${id}/files`)).body.total).toBe(0)
    expect((await developer.get(`/api/v1/datasets/${id}`)).body.status).toBe('DRAFT')
  })

  test('409 while the dataset is frozen, for every way to upload', async () => {
    const id = await draft()
    await send(id, await makeZip(await makeFlowers()))
    const late = await open(id, Buffer.alloc(10))
    expect((await developer.post(`/api/v1/datasets/${id}:freeze`)).body.detail).toEqual({ reason: 'open_upload' })
    expect((await developer.delete(`/api/v1/datasets/${id}/uploads/${late.upload_id}`)).status).toBe(204)
    expect((await developer.post(`/api/v1/datasets/${id}:freeze`)).status).toBe(200)
    const reply = await developer.post(`/api/v1/datasets/${id}/uploads`, { filename: 'a', size: 1 })
    expect(reply.status).toBe(409)
    expect(reply.body.detail).toEqual({ reason: 'dataset_frozen' })
  })
})

describe('DELETE /api/v1/datasets/{dataset_id}/uploads/{upload_id}', () => {
  test('204 ends an open session and frees its space', async () => {
    const id = await draft()
    const { upload_id: upload } = await open(id, Buffer.alloc(10))
    await chunk(id, upload, 0, Buffer.alloc(10))
    expect(await folders()).toContain(upload)
    expect((await developer.delete(`/api/v1/datasets/${id}/uploads/${upload}`)).status).toBe(204)
    expect((await developer.get(`/api/v1/datasets/${id}/uploads/${upload}`)).status).toBe(404)
    expect((await developer.get(`/api/v1/datasets/${id}`)).body.status).toBe('DRAFT')
    expect(await folders()).not.toContain(upload)
  })

  test('409 for one that has ended', async () => {
    const id = await draft()
    const session = await send(id, Buffer.from('content'))
    expect((await developer.delete(`/api/v1/datasets/${id}/uploads/${session.upload_id}`)).status).toBe(409)
  })
})

describe('a chunk with Content-Digest', () => {
  const header = (bytes: Uint8Array) => `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`
  const sendChunk = (dataset: string, upload: string, bytes: Buffer, digest: string) =>
    developer.call('PUT', `/api/v1/datasets/${dataset}/uploads/${upload}/chunks/0`, {
      body: bytes as never,
      headers: { 'content-type': 'application/octet-stream', 'content-digest': digest },
    })

  test('400 for other bytes, which change nothing, not even when sent again', async () => {
    const id = await draft()
    const content = randomBytes(900)
    const { upload_id: upload } = await open(id, content)
    const damaged = await sendChunk(id, upload, randomBytes(900), header(content))
    expect(damaged.status).toBe(400)
    expect(damaged.body.detail).toMatchObject({ reason: 'digest_mismatch', expected: sha256(content) })
    expect((await sendChunk(id, upload, content, 'sha-256=:nonsense:')).status).toBe(400)
    expect((await developer.get(`/api/v1/datasets/${id}/uploads/${upload}`)).body.received).toEqual([])
    expect((await sendChunk(id, upload, content, header(content))).status).toBe(200)
    expect((await sendChunk(id, upload, randomBytes(900), header(content))).status).toBe(400)
    await developer.post(`/api/v1/datasets/${id}/uploads/${upload}:complete`)
    const { result } = await ended(id, upload)
    const file = await developer.get(`/api/v1/datasets/${id}/files/${result.file_ids[0]}`)
    expect(file.body.digest).toBe(`sha256:${sha256(content)}`)
  })
})

describe('a chunk that is being sent again while the upload is completed', () => {
  test('is broken off: it reaches neither the file nor the blob store', async () => {
    const id = await draft()
    const content = randomBytes(64_000)
    const { upload_id: upload } = await open(id, content, { chunk_size: 64_000 })
    await chunk(id, upload, 0, content)
    const path = `${platform.url}/api/v1/datasets/${id}/uploads/${upload}/chunks/0`
    const sent = Promise.withResolvers<void>()
    const slow = new ReadableStream({
      async start(controller) {
        controller.enqueue(new Uint8Array(1000))
        sent.resolve()
      },
    })
    const headers = { authorization: `Bearer ${developer.token}`, 'x-tenant': 'default' }
    const body = { body: slow, duplex: 'half' } as RequestInit
    const type = { 'content-type': 'application/octet-stream' }
    const sending = fetch(path, { method: 'PUT', headers: { ...headers, ...type }, ...body }).catch(() => null)
    await sent.promise
    await eventually(async () => (await readdir(join(platform.dataDir, 'uploads', upload))).length > 1)
    await developer.post(`/api/v1/datasets/${id}/uploads/${upload}:complete`)
    const { state, result } = await ended(id, upload)
    expect(state).toBe('done')
    expect([409, undefined]).toContain((await sending)?.status)
    const read = await developer.get(`/api/v1/datasets/${id}/files/${result.file_ids[0]}`)
    expect(read.body.digest).toBe(`sha256:${sha256(content)}`)
  })
})

describe('POST /api/v1/datasets/{dataset_id}/archive', () => {
  const archive = (id: string, bytes: Buffer, name = 'a.zip') => {
    const body = new FormData()
    body.set('file', new Blob([bytes as never]), name)
    return developer.call('POST', `/api/v1/datasets/${id}/archive`, { body })
  }

  test('201 registers every member', async () => {
    const id = await draft()
    const reply = await archive(id, await makeZip(await makeFlowers()))
    expect(reply.status).toBe(201)
    expect(reply.body).toMatchObject({ created: 12, skipped: [], skipped_total: 0 })
    expect(reply.body.file_ids).toHaveLength(12)
    await eventually(async () => (await developer.get(`/api/v1/datasets/${id}`)).body.status === 'READY')
  })

  test('422 with the reason for what is no archive or must not be used', async () => {
    const id = await draft()
    const before = await folders()
    const none = await archive(id, Buffer.from('%PDF'))
    expect(none.status).toBe(422)
    expect(none.body.detail[0]).toMatchObject({ loc: ['body', 'file'], type: 'not_an_archive' })
    const good = await makeZip({ 'xx/evil': Buffer.from('x') })
    const evil = Buffer.from(good.toString('latin1').replaceAll('xx/evil', '../evil'), 'latin1')
    const reply = await archive(id, evil)
    expect(reply.status).toBe(422)
    expect(reply.body.detail[0]).toMatchObject({ loc: ['body', 'file'], type: 'archive_invalid' })
    expect(await folders()).toEqual(before)
    expect((await developer.get(`/api/v1/datasets/${id}`)).body.status).toBe('DRAFT')
  })
})
