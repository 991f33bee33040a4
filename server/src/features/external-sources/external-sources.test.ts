import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import {
  type SourceServer,
  startBucket,
  startWebFolder,
} from '../../adapters/external-sources/source-server.fixture.ts'
import { transaction } from '../../platform/db/transaction.ts'

const sources = '/api/v1/external-sources'
const secret = 'uvwxyz/very+secret'
let platform: TestPlatform
let admin: TestClient
let viewer: TestClient
let work: string
let bucket: SourceServer
beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), 'platform-mlops-external-'))
  await mkdir(join(work, 'shared/set'), { recursive: true })
  await writeFile(join(work, 'shared/set/a.txt'), 'a')
  bucket = await startBucket('pictures', { id: 'AKIA1', secret })
  platform = await startTestPlatform({
    PLATFORM_MLOPS_SOURCE_FOLDERS: `${work}/shared:/nowhere`,
    PLATFORM_MLOPS_SOURCE_ALLOWED_HOSTS: '127.0.0.1',
    PLATFORM_MLOPS_SOURCE_SILENCE_SECONDS: '5',
  })
  admin = await platform.member('default', 'ADMIN')
  viewer = await platform.member('default', 'VIEWER')
})
afterAll(async () => {
  await platform?.stop()
  await bucket?.close()
  await rm(work, { recursive: true, force: true })
})

const s3 = (name: string, change: object = {}) => ({
  name,
  kind: 's3',
  config: { bucket: 'pictures', endpoint: bucket.url },
  credentials: { access_key_id: 'AKIA1', secret_access_key: secret },
  ...change,
})
const make = async (body: object): Promise<string> => (await admin.post(sources, body)).body.id

describe('POST /api/v1/external-sources', () => {
  test('201 shows everything but the credentials', async () => {
    const { status, body, text } = await admin.post(
      sources,
      s3('first', { config: { bucket: 'pictures', endpoint: bucket.url, secret_access_key: secret } }),
    )
    expect(status).toBe(201)
    expect(body).toMatchObject({ name: 'first', kind: 's3', has_credentials: true, created_by: admin.email })
    expect(body.config).toEqual({ bucket: 'pictures', endpoint: bucket.url })
    expect(text).not.toContain('very+secret')
  })

  test('409 for a name that is taken, in whatever case', async () => {
    expect((await admin.post(sources, s3('FIRST'))).body).toMatchObject({
      code: 'conflict',
      detail: { reason: 'name_taken' },
    })
  })

  test.each([
    ['an unknown kind', { kind: 'git' }, 'kind'],
    ['no bucket', { config: {} }, 'bucket'],
    ['an endpoint that is no address', { config: { bucket: 'pictures', endpoint: 'minio:9000' } }, 'endpoint'],
    ['a password in the address', { config: { bucket: 'pictures', endpoint: 'http://a:b@minio.lan' } }, 'endpoint'],
    ['half a key', { credentials: { access_key_id: 'a' } }, 'secret_access_key'],
    [
      'the metadata service of a cloud',
      { config: { bucket: 'pictures', endpoint: 'http://169.254.169.254' } },
      'endpoint',
    ],
    ['loopback', { kind: 'http', config: { url: 'http://127.0.0.2/' }, credentials: null }, 'url'],
    ['loopback in other words', { kind: 'http', config: { url: 'http://[::ffff:7f00:2]/' }, credentials: null }, 'url'],
    ['another protocol', { kind: 'http', config: { url: 'file:///etc/passwd' }, credentials: null }, 'url'],
    [
      'a user without a password',
      { kind: 'http', config: { url: 'http://files.lan/' }, credentials: { username: 'a' } },
      'credentials',
    ],
    [
      'credentials of a directory',
      { kind: 'directory', config: { path: '/tmp' }, credentials: { token: 'a' } },
      'credentials',
    ],
    ['a relative path', { kind: 'directory', config: { path: 'tmp' }, credentials: null }, 'path'],
  ])('422 that names the field for %s', async (_name, change, field) => {
    const { status, body } = await admin.post(sources, s3('odd', change))
    expect(status).toBe(422)
    expect(body.detail[0].loc.at(-1)).toBe(field)
  })

  test('422 names the setting for a folder that the operator has not allowed, there or not', async () => {
    for (const path of ['/etc', '/etc/nothing-here', work, `${work}/shared/../..`]) {
      const { status, text } = await admin.post(sources, { name: 'folder', kind: 'directory', config: { path } })
      expect(status).toBe(422)
      expect(text).toContain('PLATFORM_MLOPS_SOURCE_FOLDERS')
    }
    expect(
      (await admin.post(sources, { name: 'folder', kind: 'directory', config: { path: `${work}/shared/set` } })).status,
    ).toBe(201)
  })
})

describe('GET /api/v1/external-sources', () => {
  test('200 in the order of names, filtered by a part of them; a viewer sees no secret', async () => {
    for (const name of ['b-two', 'a_one', 'c%three']) await make(s3(name))
    const { body, text } = await viewer.get(`${sources}?page_size=2`)
    expect(body).toMatchObject({ total: 5, page: 1, page_size: 2 })
    expect(body.items.map(({ name }: { name: string }) => name)).toEqual(['a_one', 'b-two'])
    expect((await viewer.get(`${sources}?q=%25`)).body.items).toMatchObject([{ name: 'c%three' }])
    expect(text).not.toContain('very+secret')
  })
})

describe('GET /api/v1/external-sources/{source_id}', () => {
  test('200 with an ETag; 404 for another tenant’s', async () => {
    const id = await make(s3('of-default'))
    const first = await viewer.get(`${sources}/${id}`)
    expect(first.body).toMatchObject({ id, datasets: [] })
    const again = await viewer.get(`${sources}/${id}`, { headers: { 'if-none-match': first.headers.get('etag')! } })
    expect(again.status).toBe(304)
    await platform.tenant('other')
    const stranger = await platform.member('other', 'ADMIN')
    for (const method of ['GET', 'PATCH', 'DELETE'])
      expect((await stranger.call(method, `${sources}/${id}`, method === 'PATCH' ? { json: {} } : {})).status).toBe(404)
    expect((await stranger.post(`${sources}/${id}/test`)).status).toBe(404)
  })
})

describe('PATCH /api/v1/external-sources/{source_id}', () => {
  test('200 changes what is given; 412 when it was changed since', async () => {
    const id = await make(s3('to-change'))
    const { headers } = await admin.get(`${sources}/${id}`)
    expect((await admin.patch(`${sources}/${id}`, { name: 'changed' })).body).toMatchObject({
      name: 'changed',
      has_credentials: true,
    })
    const late = await admin.patch(
      `${sources}/${id}`,
      { name: 'late' },
      { headers: { 'if-match': headers.get('etag')! } },
    )
    expect(late.status).toBe(412)
    expect((await admin.patch(`${sources}/${id}`, { credentials: null })).body.has_credentials).toBe(false)
    expect((await admin.patch(`${sources}/${id}`, { name: 'first' })).status).toBe(409)
  })

  test('422 rather than send the stored credentials to a new address', async () => {
    const id = await make(s3('moving'))
    const config = { bucket: 'pictures', endpoint: 'http://collector.example' }
    const { status, body } = await admin.patch(`${sources}/${id}`, { config })
    expect(status).toBe(422)
    expect(body.detail[0].loc).toEqual(['body', 'credentials'])
    expect((await admin.patch(`${sources}/${id}`, { config, credentials: null })).status).toBe(200)
    expect((await admin.patch(`${sources}/${id}`, { config: { ...config, bucket: 'others' } })).status).toBe(200)
  })
})

describe('DELETE /api/v1/external-sources/{source_id}', () => {
  test('200 once; 409 while a dataset follows it', async () => {
    const id = await make(s3('to-delete'))
    const dataset = (await admin.post('/api/v1/datasets/drafts', { name: 'linked' })).body.id
    expect((await admin.put(`/api/v1/datasets/${dataset}/sync`, { source_id: id })).status).toBe(200)
    const { status, body } = await admin.delete(`${sources}/${id}`)
    expect(status).toBe(409)
    expect(body.detail).toEqual({ reason: 'in_use', datasets: [dataset] })
    expect((await admin.get(`${sources}/${id}`)).body.datasets).toEqual([
      { id: dataset, name: 'linked', status: 'DRAFT' },
    ])
    await admin.put(`/api/v1/datasets/${dataset}/sync`, { source_id: null })
    expect((await admin.delete(`${sources}/${id}`)).body).toMatchObject({ id, name: 'to-delete' })
    expect((await admin.delete(`${sources}/${id}`)).status).toBe(404)
  })
})

describe('POST /api/v1/external-sources/{source_id}/test', () => {
  test('200 ok where it can be listed, and the reason where not', async () => {
    bucket.put('a.txt', 'a')
    const good = await admin.post(`${sources}/${await make(s3('good'))}/test`)
    expect(good.body).toEqual({ ok: true, latency_ms: expect.any(Number), error: null })
    const wrong = await make(
      s3('wrong', { credentials: { access_key_id: 'AKIA1', secret_access_key: 'no-it-is-not' } }),
    )
    const { body, text } = await admin.post(`${sources}/${wrong}/test`)
    expect(body).toMatchObject({ ok: false, error: expect.stringContaining('refuses access') })
    expect(text).not.toContain('no-it-is-not')
    const nobody = await make({ name: 'nobody', kind: 'http', config: { url: 'http://nobody.invalid/' } })
    expect((await admin.post(`${sources}/${nobody}/test`)).body).toMatchObject({ ok: false, error: expect.any(String) })
  })

  test('200 with the fault of one that falls silent', async () => {
    const web = await startWebFolder()
    web.put('manifest.json', '[]'.padEnd(2000))
    web.mischief.set('manifest.json', 'stall')
    const id = await make({ name: 'silent', kind: 'http', config: { url: `${web.url}/manifest.json` } })
    expect((await admin.post(`${sources}/${id}/test`)).body).toMatchObject({
      ok: false,
      error: expect.stringContaining('silent'),
    })
    await web.close()
  })
})

describe('secrets of sources', () => {
  test('stand in no column of the database in clear, nor in the audit', async () => {
    await make(s3('sealed'))
    const rows = await transaction(platform.services.db, 'system', async (tx) => [
      await tx.selectFrom('externalSources').selectAll().execute(),
      await tx.selectFrom('auditEvents').selectAll().execute(),
    ])
    const text = JSON.stringify(rows)
    expect(text).toContain('sealed')
    expect(text).not.toContain('very+secret')
    expect(text).not.toContain(Buffer.from(secret).toString('base64'))
  })
})
