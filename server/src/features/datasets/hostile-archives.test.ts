import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ZipFile } from 'yazl'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { createDraft, makeImage, makeZip, sendUpload } from './datasets.fixture.ts'

let platform: TestPlatform
let developer: TestClient
beforeAll(async () => {
  platform = await startTestPlatform({ PLATFORM_MLOPS_DATASET_QUOTA_BYTES: '20000000' })
  developer = await platform.member('default', 'DEVELOPER')
})
afterAll(() => platform?.stop())

/** A good archive in which every `from` became `to`, of the same length. */
async function forged(name: string, from: string, to: string): Promise<Buffer> {
  const zip = await makeZip({ 'good.jpg': await makeImage(), [name]: 'content' })
  return Buffer.from(zip.toString('latin1').replaceAll(from, to), 'latin1')
}

async function linked(): Promise<Buffer> {
  const archive = new ZipFile()
  archive.addBuffer(await makeImage(), 'good.jpg')
  archive.addBuffer(Buffer.from('/etc/passwd'), 'link', { mode: 0o120777 })
  archive.end()
  return Buffer.concat(await Array.fromAsync(archive.outputStream as AsyncIterable<Buffer>))
}

/** Sets the flag of encryption in every header. */
async function encrypted(): Promise<Buffer> {
  const zip = await makeZip({ 'good.jpg': await makeImage() })
  for (const [signature, flags] of [
    ['PK\x03\x04', 6],
    ['PK\x01\x02', 8],
  ] as const)
    zip[zip.indexOf(Buffer.from(signature, 'latin1')) + flags]! |= 1
  return zip
}

describe('an archive that must not be used', () => {
  test.each<[string, RegExp, () => Promise<Buffer>]>([
    ['climbs out of its folder', /leads elsewhere/, () => forged('xx/evil', 'xx/evil', '../evil')],
    ['has an absolute path', /leads elsewhere/, () => forged('xetc/evil', 'xetc/evil', '/etc//evi')],
    ['has a path of Windows', /leads elsewhere/, () => forged('xxx/evil', 'xxx/evil', '..\\..\\ev')],
    ['holds a symbolic link', /link or a device/, linked],
    ['is encrypted', /encrypted/, encrypted],
    ['is a bomb', /times its size/, () => makeZip({ 'zeros.bin': Buffer.alloc(10_000_000) })],
    ['is larger than the quota', /room for/, () => makeZip({ 'big.bin': Buffer.alloc(21_000_000) })],
    [
      'is cut short',
      /incomplete or damaged/,
      async () => (await makeZip({ 'a.jpg': await makeImage() })).subarray(0, -30),
    ],
  ])('%s: fails with a reason, registers nothing and leaves no chunk behind', async (_, reason, make) => {
    const content = await make()
    const id = await createDraft(developer)
    const session = await sendUpload(developer, id, content, { chunk_size: 32 << 20 })
    expect(session).toMatchObject({ state: 'failed', error: { code: 'archive_invalid' }, result: null })
    expect(session.error.message).toMatch(reason)
    const body = new FormData()
    body.set('file', new Blob([content as never]), 'a.zip')
    const reply = await developer.call('POST', `/api/v1/datasets/${id}/archive`, { body })
    expect(reply.status).toBe(422)
    expect(reply.body.detail[0].msg).toMatch(reason)
    expect((await developer.get(`/api/v1/datasets/${id}`)).body).toMatchObject({ status: 'DRAFT', file_count: 0 })
    expect(await readdir(join(platform.dataDir, 'uploads'))).not.toContain(session.upload_id)
  })
})

describe('an archive with oddities', () => {
  test('keeps what is good, says what was left out, and takes nested archives as files', async () => {
    const archive = new ZipFile()
    const add = (name: string, content: Buffer | string) => archive.addBuffer(Buffer.from(content as string), name)
    add('a.jpg', await makeImage())
    add('a.jpg', await makeImage())
    add('__MACOSX/._a.jpg', 'resource fork')
    add('x/.DS_Store', 'desktop')
    add('x/Thumbs.db', 'thumbs')
    add('한글/가.txt'.normalize('NFD'), 'decomposed')
    add('inner.zip', await makeZip({ '1.txt': 'inner' }))
    archive.addEmptyDirectory('empty/')
    archive.end()
    const id = await createDraft(developer)
    const zip = Buffer.concat(await Array.fromAsync(archive.outputStream as AsyncIterable<Buffer>))
    const { result } = await sendUpload(developer, id, zip, { chunk_size: 1 << 20 })
    expect(result).toMatchObject({
      created: 3,
      skipped: [{ path: 'a.jpg', reason: 'another entry has the same name' }],
    })
    const { items } = (await developer.get(`/api/v1/datasets/${id}/files?sort=name`)).body
    expect(items.map(({ path, kind }: { path: string; kind: string }) => [path, kind])).toEqual([
      ['a.jpg', 'image'],
      ['inner.zip', 'archive'],
      ['한글/가.txt', 'annotation'],
    ])
  })
})
