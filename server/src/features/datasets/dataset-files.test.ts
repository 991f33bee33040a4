import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { createDraft, makeFlowers, makeImage, postFile, uploadDataset } from './datasets.fixture.ts'

let platform: TestPlatform
let developer: TestClient
let stranger: TestClient
beforeAll(async () => {
  platform = await startTestPlatform({ PLATFORM_MLOPS_MAX_UPLOAD_BYTES: '200000' })
  developer = await platform.member('default', 'DEVELOPER')
  await platform.tenant('other')
  stranger = await platform.member('other', 'ADMIN')
})
afterAll(() => platform?.stop())

const bytesOf = async (path: string, headers: Record<string, string> = {}, method = 'GET') => {
  const own = { authorization: `Bearer ${developer.token}`, 'x-tenant': 'default', ...headers }
  const reply = await fetch(platform.url + path, { method, headers: own })
  return { status: reply.status, headers: reply.headers, bytes: Buffer.from(await reply.arrayBuffer()) }
}

describe('POST /api/v1/datasets/{dataset_id}/files', () => {
  test('201 keeps the file and says what it is', async () => {
    const id = await createDraft(developer)
    const reply = await postFile(developer, id, '../사진\u0007.jpg', await makeImage())
    expect(reply.status).toBe(201)
    expect(reply.body).toMatchObject({
      created: true,
      name: '사진.jpg',
      kind: 'image',
      media_type: 'image/jpeg',
      origin: 'upload',
      status: 'VALID',
      width: 40,
      height: 30,
    })
  })

  test('201 with created: false for the same file again; other content replaces it under the same id', async () => {
    const id = await createDraft(developer)
    const first = await postFile(developer, id, 'a.txt', 'one')
    const again = await postFile(developer, id, 'a.txt', 'one')
    expect(again.body).toMatchObject({ created: false, file_id: first.body.file_id })
    const other = await postFile(developer, id, 'a.txt', 'two!')
    expect(other.body).toMatchObject({ created: true, file_id: first.body.file_id, size: 4 })
    expect((await developer.get(`/api/v1/datasets/${id}`)).body).toMatchObject({ file_count: 1, size_bytes: 4 })
  })

  test('413 for a file over the limit, 422 for a body without one', async () => {
    const id = await createDraft(developer)
    expect((await postFile(developer, id, 'big', Buffer.alloc(200_001))).status).toBe(413)
    const none = await developer.call('POST', `/api/v1/datasets/${id}/files`, { body: new FormData() })
    expect(none.status).toBe(422)
    expect((await developer.get(`/api/v1/datasets/${id}/files`)).body.total).toBe(0)
  })

  test('409 for a frozen dataset', async () => {
    const id = await uploadDataset(developer, await makeFlowers())
    await developer.post(`/api/v1/datasets/${id}:freeze`)
    const reply = await postFile(developer, id, 'a.txt', 'late')
    expect(reply.status).toBe(409)
    expect(reply.body.detail).toEqual({ reason: 'dataset_frozen' })
  })

  test('404 for another tenant', async () => {
    expect((await postFile(stranger, await createDraft(developer), 'a.txt', 'x')).status).toBe(404)
  })
})

describe('GET /api/v1/datasets/{dataset_id}/files', () => {
  test('200 filters, searches, sorts, and reaches every page from either end', async () => {
    const files: Record<string, string> = {}
    for (let i = 0; i < 23; i++) files[`notes/${String(i).padStart(2, '0')}.txt`] = `${'x'.repeat(i)}!`
    const id = await uploadDataset(developer, { ...files, 'a.csv': 'a,b\n1,2\n' })
    const paths = async (query: string) => {
      const { body } = await developer.get(`/api/v1/datasets/${id}/files?${query}`)
      return body.items.map((file: { path: string }) => file.path)
    }
    for (const order of ['asc', 'desc']) {
      for (const sort of ['name', 'size', 'created_at', 'kind', 'status']) {
        const pages: string[] = []
        for (const page of [1, 2, 3, 4, 5, 6])
          pages.push(...(await paths(`sort=${sort}&order=${order}&page=${page}&page_size=5`)))
        expect(new Set(pages).size).toBe(24)
        expect(await paths(`sort=${sort}&order=${order}&page_size=100`)).toEqual(pages)
      }
    }
    expect((await paths('sort=size&page_size=3')).at(0)).toBe('notes/22.txt')
    expect(await paths('kind=tabular')).toEqual(['a.csv'])
    expect(await paths('q=S/2')).toHaveLength(3)
    expect(await paths('origin=sync')).toEqual([])
    expect((await developer.get(`/api/v1/datasets/${id}/files?status=VALID`)).body.total).toBe(24)
    expect((await stranger.get(`/api/v1/datasets/${id}/files`)).status).toBe(404)
    expect((await developer.get(`/api/v1/datasets/${id}/files?kind=sound`)).status).toBe(422)
  })
})

describe('GET /api/v1/datasets/{dataset_id}/files/{file_id}/content', () => {
  test('200 with ETag and a name in any script; 206, 304 and 416', async () => {
    const id = await createDraft(developer)
    const { file_id: file, digest } = (await postFile(developer, id, '수국 (x).txt', '0123456789')).body
    const path = `/api/v1/datasets/${id}/files/${file}/content`
    const whole = await bytesOf(`${path}?download=true`)
    expect(whole.status).toBe(200)
    expect(whole.bytes.toString()).toBe('0123456789')
    expect(whole.headers.get('etag')).toBe(`"${digest.slice(7)}"`)
    expect(whole.headers.get('x-content-type-options')).toBe('nosniff')
    expect(whole.headers.get('content-disposition')).toContain("filename*=UTF-8''%EC%88%98%EA%B5%AD%20%28x%29.txt")
    const part = await bytesOf(path, { range: 'bytes=2-4' })
    expect([part.status, part.bytes.toString(), part.headers.get('content-range')]).toEqual([
      206,
      '234',
      'bytes 2-4/10',
    ])
    expect((await bytesOf(path, { 'if-none-match': `"${digest.slice(7)}"` })).status).toBe(304)
    const outside = await bytesOf(path, { range: 'bytes=10-' })
    expect([outside.status, outside.headers.get('content-range')]).toEqual([416, 'bytes */10'])
    const head = await bytesOf(path, {}, 'HEAD')
    expect(['etag', 'content-length'].map((name) => head.headers.get(name))).toEqual([whole.headers.get('etag'), '10'])
    expect((await stranger.get(path)).status).toBe(404)
    expect((await developer.get(`${path}?variant=thumb`)).status).toBe(422)
    expect((await developer.get(`${path}?variant=preview`)).status).toBe(404)
  })

  test('200 with a preview that is small, upright and kept', async () => {
    const wide = { create: { width: 3000, height: 1000, channels: 3, background: 'teal' } } as const
    const photo = await sharp(wide).withMetadata({ orientation: 6 }).jpeg().toBuffer()
    const id = await createDraft(developer)
    const { file_id: file, width, height } = (await postFile(developer, id, 'photo.jpg', photo)).body
    expect([width, height]).toEqual([1000, 3000])
    const path = `/api/v1/datasets/${id}/files/${file}/content?variant=preview`
    const preview = await bytesOf(path)
    expect(preview.headers.get('content-type')).toBe('image/webp')
    const { width: w, height: h, format } = await sharp(preview.bytes).metadata()
    expect([w, h, format]).toEqual([341, 1024, 'webp'])
    const again = await bytesOf(path, { range: 'bytes=0-3' })
    expect([again.status, again.bytes.toString()]).toEqual([206, 'RIFF'])
    expect(again.headers.get('etag')).toBe(preview.headers.get('etag'))
  })

  test('shows HTML and drawings only inside a sandbox', async () => {
    const id = await createDraft(developer)
    const { file_id: file } = (await postFile(developer, id, 'x.svg', '<svg onload="alert(1)"/>')).body
    const reply = await bytesOf(`/api/v1/datasets/${id}/files/${file}/content`)
    expect(reply.headers.get('content-security-policy')).toBe('sandbox')
  })
})

describe('DELETE /api/v1/datasets/{dataset_id}/files/{file_id}', () => {
  test('204 removes it; of a frozen dataset only when forced, which gives it a new digest', async () => {
    const id = await uploadDataset(developer, await makeFlowers())
    const { items } = (await developer.get(`/api/v1/datasets/${id}/files?sort=name`)).body
    const path = (index: number) => `/api/v1/datasets/${id}/files/${items[index].file_id}`
    expect((await stranger.delete(path(0))).status).toBe(404)
    expect((await developer.delete(path(0))).status).toBe(204)
    expect((await developer.get(path(0))).status).toBe(404)
    expect((await developer.post(`/api/v1/datasets/${id}/revalidate`)).body.file_count).toBe(11)
    const { digest } = (await developer.post(`/api/v1/datasets/${id}:freeze`)).body
    expect((await developer.delete(path(1))).status).toBe(409)
    expect((await developer.delete(`${path(1)}?force=true`)).status).toBe(204)
    const { body } = await developer.get(`/api/v1/datasets/${id}`)
    expect(body).toMatchObject({ status: 'FROZEN', file_count: 10 })
    expect(body.digest).not.toBe(digest)
  })
})
