import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { readZip } from '../../platform/archives/zip-archive.ts'
import { createDraft, makeFlowers, makeImage, postFile, uploadDataset } from './datasets.fixture.ts'
import { storedZip, storedZipBytes } from './stored-zip.ts'

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

async function frozen(files: Record<string, Buffer | string>): Promise<string> {
  const id = await uploadDataset(developer, files)
  expect((await developer.post(`/api/v1/datasets/${id}:freeze`)).status).toBe(200)
  return id
}

const ready = (id: string) =>
  eventually(async () => (await developer.get(`/api/v1/datasets/${id}`)).body.status === 'READY')

async function download(id: string) {
  const headers = { authorization: `Bearer ${developer.token}`, 'x-tenant': 'default' }
  const reply = await fetch(`${platform.url}/api/v1/datasets/${id}/export`, { headers })
  return { status: reply.status, headers: reply.headers, bytes: Buffer.from(await reply.arrayBuffer()) }
}

describe('POST /api/v1/datasets/{dataset_id}/versions', () => {
  test('201 is a draft with the same files, which leaves its parent as it was', async () => {
    const parent = await frozen(await makeFlowers())
    const { digest } = (await developer.get(`/api/v1/datasets/${parent}`)).body
    const reply = await developer.post(`/api/v1/datasets/${parent}/versions`, { name: 'more flowers' })
    expect(reply.status).toBe(201)
    const { id } = reply.body
    expect(reply.body).toMatchObject({ status: 'DRAFT', parent_id: parent, version: 2, file_count: 12, digest: null })
    expect((await developer.post(`/api/v1/datasets/${id}:freeze`)).body.detail.reason).toBe('not_validated')
    await developer.post(`/api/v1/datasets/${id}/revalidate`)
    expect((await developer.post(`/api/v1/datasets/${id}:freeze`)).body.digest).toBe(digest)
    expect((await developer.get(`/api/v1/datasets/${parent}`)).body.digest).toBe(digest)
    const second = await developer.post(`/api/v1/datasets/${parent}/versions`, {})
    expect(second.body).toMatchObject({ version: 3, name: 'flowers' })
  })

  test('409 for a dataset that is not frozen, 404 for one of another tenant', async () => {
    const id = await createDraft(developer)
    const reply = await developer.post(`/api/v1/datasets/${id}/versions`, {})
    expect(reply.status).toBe(409)
    expect(reply.body.detail).toEqual({ reason: 'not_frozen' })
    expect((await stranger.post(`/api/v1/datasets/${id}/versions`, {})).status).toBe(404)
  })
})

describe('GET /api/v1/datasets/{dataset_id}/versions', () => {
  test('200 lists the whole line, from any of its members; 404 for another tenant', async () => {
    const first = await frozen(await makeFlowers())
    const second = (await developer.post(`/api/v1/datasets/${first}/versions`, {})).body.id
    for (const id of [first, second]) {
      const { body } = await developer.get(`/api/v1/datasets/${id}/versions`)
      expect(body).toMatchObject({
        total: 2,
        items: [
          { id: first, version: 1, parent_id: null, status: 'FROZEN' },
          { id: second, version: 2, parent_id: first, status: 'DRAFT' },
        ],
      })
    }
    expect((await stranger.get(`/api/v1/datasets/${first}/versions`)).status).toBe(404)
  })
})

describe('GET /api/v1/datasets/{dataset_id}/diff', () => {
  test('200 lists what was added, removed and changed', async () => {
    const parent = await frozen({ ...(await makeFlowers()), 'a.txt': 'one', 'b.txt': 'two' })
    const { id } = (await developer.post(`/api/v1/datasets/${parent}/versions`, {})).body
    await postFile(developer, id, 'a.txt', 'changed')
    await postFile(developer, id, 'c.txt', 'new')
    const { items } = (await developer.get(`/api/v1/datasets/${id}/files?q=b.txt`)).body
    await developer.delete(`/api/v1/datasets/${id}/files/${items[0].file_id}`)
    await ready(id)
    const { body } = await developer.get(`/api/v1/datasets/${id}/diff`)
    expect(body).toMatchObject({
      against: parent,
      counts: { added: 1, removed: 1, changed: 1, unchanged: 12 },
      total: 3,
      items: [
        { path: 'a.txt', change: 'changed', before: { size: 3 }, after: { size: 7 } },
        { path: 'b.txt', change: 'removed', after: null },
        { path: 'c.txt', change: 'added', before: null },
      ],
    })
    const page = await developer.get(`/api/v1/datasets/${id}/diff?against=${parent}&page=2&page_size=2`)
    expect(page.body.items.map(({ path }: { path: string }) => path)).toEqual(['c.txt'])
  })

  test('422 without anything to compare with, 404 for what is not there', async () => {
    const id = await createDraft(developer)
    expect((await developer.get(`/api/v1/datasets/${id}/diff`)).status).toBe(422)
    expect((await developer.get(`/api/v1/datasets/${id}/diff?against=nothing`)).status).toBe(404)
    expect((await stranger.get(`/api/v1/datasets/${id}/diff?against=${id}`)).status).toBe(404)
  })
})

describe('GET /api/v1/datasets/{dataset_id}/export', () => {
  test('200 gives the same bytes for the same dataset, and they make the same dataset again', async () => {
    const files = { ...(await makeFlowers()), '꽃/메모.txt': 'note' }
    const [one, two] = [await frozen(files), await frozen(files)]
    const first = await download(one)
    expect(first.status).toBe(200)
    expect(Number(first.headers.get('content-length'))).toBe(first.bytes.length)
    expect((await download(two)).bytes.equals(first.bytes)).toBe(true)
    const body = new FormData()
    body.set('file', new Blob([first.bytes as never]), 'again.zip')
    const again = await createDraft(developer)
    await developer.call('POST', `/api/v1/datasets/${again}/archive`, { body })
    await ready(again)
    const digest = async (id: string) => (await developer.post(`/api/v1/datasets/${id}:freeze`)).body.digest
    expect(await digest(again)).toBe((await developer.get(`/api/v1/datasets/${one}`)).body.digest)
  })

  test('409 for a dataset that may still change; 404 for another tenant', async () => {
    const id = await createDraft(developer)
    expect((await download(id)).status).toBe(409)
    expect((await stranger.get(`/api/v1/datasets/${id}/export`)).status).toBe(404)
  })
})

describe('storedZip', () => {
  test('is an archive that other programs read, of the length announced', async () => {
    const contents = new Map([
      ['a/large.bin', Buffer.alloc(5 * 1024 * 1024, 7)],
      ['b/빈 파일.txt', Buffer.alloc(0)],
      ['c.jpg', await makeImage()],
    ])
    const entries = [...contents].map(([path, content]) => ({ path, size: content.length }))
    async function* listed() {
      yield* entries
    }
    const make = () =>
      buffer(Readable.from(storedZip(listed(), async ({ path }) => Readable.from([contents.get(path)!]))))
    const zip = await make()
    const sum = (values: number[]) => values.reduce((a, b) => a + b, 0)
    const pathBytes = sum(entries.map(({ path }) => Buffer.byteLength(path)))
    expect(zip.length).toBe(storedZipBytes({ files: 3, bytes: sum(entries.map(({ size }) => size)), pathBytes }))
    expect((await make()).equals(zip)).toBe(true)
    const folder = await mkdtemp(join(tmpdir(), 'export-'))
    try {
      const path = join(folder, 'x.zip')
      await writeFile(path, zip)
      const found = new Map<string, string>()
      await readZip(path, { totalBytes: 1e9 }, async (member) => {
        found.set(
          member.path,
          createHash('sha256')
            .update(await buffer(member.open()))
            .digest('hex'),
        )
      })
      for (const [name, content] of contents)
        expect(found.get(name)).toBe(createHash('sha256').update(content).digest('hex'))
      const code =
        'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; print(len(z.namelist()))'
      expect((await promisify(execFile)('python3', ['-c', code, path])).stdout.trim()).toBe('3')
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })
})
