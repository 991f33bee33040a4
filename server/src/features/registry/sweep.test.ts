import { access, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestPlatform } from '../../../test/harness.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'
import { archivePath } from './import-files.ts'
import {
  indexType,
  manifestType,
  type OciClient,
  pushBlob,
  pushImage,
  putManifest,
  sha256,
  signedIn,
} from './registry.fixture.ts'
import { expireSessions, removeOrphans, sweepBlobs } from './sweep.service.ts'
import { announceExpiry } from './token-expiry.ts'
import { uploadFolder } from './upload-files.ts'

let platform: TestPlatform
let client: OciClient
let tenantId: string
beforeAll(async () => {
  platform = await startTestPlatform()
  tenantId = (await platform.tenant('acme')).id
  client = await signedIn(platform, await platform.member('acme', 'DEVELOPER'))
})
afterAll(() => platform?.stop())

const system = <T>(work: Parameters<typeof transaction<T>>[2]) => transaction(platform.services.db, 'system', work)
const isThere = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )
const twoDaysAgo = () => new Date(Date.now() - 2 * 86_400_000)

/** Lets everything look as if it had last been touched two days ago. */
async function age(): Promise<void> {
  const touchedAt = twoDaysAgo()
  await system(async (tx) => {
    await tx.updateTable('registryBlobs').set({ touchedAt }).execute()
    await tx.updateTable('registryUploads').set({ touchedAt }).execute()
    await tx.updateTable('registryImports').set({ touchedAt }).execute()
  })
}

const sweep = () => sweepBlobs(platform.services, { tenantId: null, dryRun: false })

describe('the sweep', () => {
  test('takes what no manifest names, after a dry run that says the same and takes nothing', async () => {
    const image = await pushImage(client, 'acme/kept', 'v1')
    const loose = await pushBlob(client, 'acme/kept', Buffer.from('nobody names me'))
    await age()
    const young = await pushBlob(client, 'acme/kept', Buffer.from('just pushed'))
    const dry = await sweepBlobs(platform.services, { tenantId, dryRun: true })
    expect(dry).toEqual({ blobs: 1, bytes: 15 })
    expect((await client('GET', `/v2/acme/kept/blobs/${loose}`)).status).toBe(200)
    expect(await sweep()).toEqual(dry)
    expect((await client('GET', `/v2/acme/kept/blobs/${loose}`)).status).toBe(404)
    for (const digest of [image.layer.digest, image.config.digest, young]) {
      expect((await client('GET', `/v2/acme/kept/blobs/${digest}`)).status).toBe(200)
    }
    expect(await sweepBlobs(platform.services, { tenantId: newId(), dryRun: true })).toEqual({ blobs: 0, bytes: 0 })
  })

  test('an old blob that a client was told of is young again', async () => {
    const digest = await pushBlob(client, 'acme/reused', Buffer.from('pushed long ago'))
    await age()
    expect((await client('HEAD', `/v2/acme/reused/blobs/${digest}`)).status).toBe(200)
    await sweep()
    expect((await client('GET', `/v2/acme/reused/blobs/${digest}`)).status).toBe(200)
  })
})

describe('what rests', () => {
  test('uploads and imports end after a day, with their files; live ones stay', async () => {
    const start = async () => {
      const location = (await client('POST', '/v2/acme/resting/blobs/uploads/')).headers.get('location')!
      await client('PATCH', location, { body: 'some bytes' })
      return location
    }
    const developer = await platform.member('acme', 'DEVELOPER')
    const old = await start()
    const { id } = (await developer.post('/api/v1/registry/imports', { size_bytes: 10 })).body
    await developer.call('PATCH', `/api/v1/registry/imports/${id}/chunks`, {
      body: '01234',
      headers: { 'content-type': 'application/octet-stream', 'content-range': 'bytes 0-4/10' },
    })
    await age()
    const fresh = await start()
    const fileOf = (location: string) =>
      join(uploadFolder(platform.services.config), /uploads\/([0-9a-f-]+)/.exec(location)![1]!)
    expect(await isThere(fileOf(old))).toBe(true)
    expect(await expireSessions(platform.services)).toBe(2)
    expect((await client('GET', old)).status).toBe(404)
    expect(await isThere(fileOf(old))).toBe(false)
    expect((await client('GET', fresh)).status).toBe(204)
    const record = (await developer.get(`/api/v1/registry/imports/${id}`)).body
    expect(record).toMatchObject({ status: 'FAILED', error: { code: 'expired' } })
    expect(await isThere(archivePath(platform.services.config, id))).toBe(false)
  })

  test('files that no session knows go, once they are old', async () => {
    const folder = uploadFolder(platform.services.config)
    const [lost, young] = [join(folder, newId()), join(folder, newId())]
    for (const path of [lost, young]) await writeFile(path, 'left by a crash')
    await utimes(lost, twoDaysAgo(), twoDaysAgo())
    expect(await removeOrphans(platform.services)).toBe(1)
    expect([await isThere(lost), await isThere(young)]).toEqual([false, true])
  })
})

describe('tokens', () => {
  test('owners are told once of a token that expires within a week', async () => {
    const member = await platform.member('acme', 'VIEWER')
    await member.post('/api/v1/registry/tokens', { name: 'soon', expires_in_days: 3 })
    await member.post('/api/v1/registry/tokens', { name: 'later', expires_in_days: 30 })
    for (let i = 0; i < 2; i++) expect(await announceExpiry(platform.services)).toBe(1)
    const { items } = (await member.get('/api/v1/notifications')).body
    expect(items.map((item: { title: string }) => item.title)).toEqual([
      expect.stringMatching(/^Your registry token soon expires on \d{4}-\d\d-\d\d$/),
    ])
  })
})

describe('GET /metrics', () => {
  test('tells bytes, repositories and pulls of each tenant', async () => {
    await pushImage(client, 'acme/measured', 'v1')
    await client('GET', '/v2/acme/measured/manifests/v1')
    const text = await eventually(async () => {
      const reply = await platform.anonymous('GET', '/metrics')
      return /platform_mlops_registry_pulls\{tenant="acme"\} [1-9]/.test(reply.text) ? reply.text : null
    }, 60)
    expect(text).toMatch(/platform_mlops_registry_stored_bytes\{tenant="acme"\} [1-9]/)
    expect(text).toMatch(/platform_mlops_registry_repositories\{tenant="acme"\} [1-9]/)
  }, 40_000)
})

test('an index whose images were left out is swept around, not through', async () => {
  const index = JSON.stringify({
    schemaVersion: 2,
    manifests: [{ mediaType: manifestType, digest: sha256('absent'), size: 6 }],
  })
  await putManifest(client, 'acme/sparse', 'v1', index, indexType)
  await age()
  await sweep()
  expect((await client('GET', '/v2/acme/sparse/manifests/v1')).text).toBe(index)
})
