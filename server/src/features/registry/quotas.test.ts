import { randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestPlatform } from '../../../test/harness.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'
import { type OciClient, ociClient, pushBlob, pushImage, sha256, signedIn } from './registry.fixture.ts'
import { newTokenSecret } from './token-secret.ts'

let platform: TestPlatform
let client: OciClient
let tenantId: string
beforeAll(async () => {
  platform = await startTestPlatform()
  tenantId = (await platform.tenant('small')).id
  client = await signedIn(platform, await platform.member('small', 'DEVELOPER'))
})
afterAll(() => platform?.stop())

const setQuota = (tenant: string, quota: unknown) =>
  platform.admin.put(`/api/v1/system/registry/tenants/${tenant}/quota`, { quota_bytes: quota })

describe('GET /api/v1/registry/usage', () => {
  test('200 counts each blob and manifest once, and the bytes of uploads that are under way', async () => {
    const viewer = await platform.member('small', 'VIEWER')
    const usage = async () => (await viewer.get('/api/v1/registry/usage')).body
    expect(await usage()).toEqual({ tenant: 'small', used_bytes: 0, quota_bytes: null })
    const image = await pushImage(client, 'small/app', 'v1')
    await pushImage(client, 'small/copy', 'v1', 'small/app:v1')
    const used = image.manifest.length + image.layer.bytes.length + image.config.bytes.length
    expect(await usage()).toMatchObject({ used_bytes: used })
    const location = (await client('POST', '/v2/small/app/blobs/uploads/')).headers.get('location')!
    await client('PATCH', location, { body: '12345' })
    expect(await usage()).toMatchObject({ used_bytes: used + 5 })
    await client('DELETE', location)
    expect(await usage()).toMatchObject({ used_bytes: used })
  })
})

describe('PUT /api/v1/system/registry/tenants/{tenant}/quota', () => {
  test('200 sets and lifts it, 404 for an unknown tenant, 422 for what is no number of bytes', async () => {
    expect((await setQuota('small', 10_000)).body).toMatchObject({ tenant: 'small', quota_bytes: 10_000 })
    const { body } = await platform.admin.get('/api/v1/system/registry/usage')
    expect(body.items.map((item: { tenant: string }) => item.tenant)).toContain('default')
    expect(body.items).toContainEqual((await setQuota('small', 10_000)).body)
    expect((await setQuota('small', null)).body).toMatchObject({ quota_bytes: null })
    expect((await setQuota('nobody', 1)).status).toBe(404)
    for (const wrong of [-1, 1.5, '1 GB', undefined]) expect((await setQuota('small', wrong)).status).toBe(422)
  })

  test('403 DENIED on every way in as soon as the bytes are too many; what is there stays readable', async () => {
    const image = await pushImage(client, 'small/app', 'v1')
    const { used_bytes: used } = (await setQuota('small', null)).body
    await setQuota('small', used + 1000)
    const bytes = Buffer.alloc(1001, 'x')
    const single = await client('POST', `/v2/small/app/blobs/uploads/?digest=${sha256(bytes)}`, { body: bytes })
    expect([single.status, single.body.errors[0].code]).toEqual([403, 'DENIED'])
    const location = (await client('POST', '/v2/small/app/blobs/uploads/')).headers.get('location')!
    expect((await client('PATCH', location, { body: bytes })).status).toBe(403)
    expect((await client('PATCH', location, { body: bytes.subarray(0, 600) })).status).toBe(202)
    expect((await client('PATCH', location, { body: bytes.subarray(0, 600) })).status, 'uploads count').toBe(403)
    expect((await client('DELETE', location)).status).toBe(204)
    await pushBlob(client, 'small/app', bytes.subarray(0, 1000))
    expect((await client('GET', '/v2/small/app/manifests/v1')).text).toBe(image.manifest)
    await setQuota('small', null)
  })

  test('403 DENIED while the bytes arrive: the answer comes before the end of a body without a length', async () => {
    const { used_bytes: used } = (await setQuota('small', null)).body
    await setQuota('small', used + 100_000)
    const authorization = `Basic ${Buffer.from(`me:${await tokenOf('small')}`).toString('base64')}`
    const location = (await client('POST', '/v2/small/app/blobs/uploads/')).headers.get('location')!
    const status = await new Promise((resolve, reject) => {
      const sending = request(platform.url + location, { method: 'PATCH', headers: { authorization } }, (answer) => {
        resolve(answer.statusCode)
        sending.destroy()
      })
      sending.on('error', reject)
      // Never ended: only a refusal on the way answers this.
      sending.write(Buffer.alloc(300_000))
    })
    expect(status).toBe(403)
    expect((await client('GET', location)).headers.get('range')).toBe('0-0')
    await client('DELETE', location)
    await setQuota('small', null)
  })
})

describe('pushes that run at once under a quota', () => {
  const contents = (count: number) => Array.from({ length: count }, () => randomBytes(300_000))
  const usedBytes = async () => (await setQuota('small', null)).body.used_bytes
  const counted = (statuses: number[], status: number) => statuses.filter((each) => each === status).length

  test('of announced length: as many are taken as there is room for, and the others leave no trace', async () => {
    const used = await usedBytes()
    await setQuota('small', used + 1_000_000)
    const push = async (bytes: Buffer) =>
      (await client('POST', `/v2/small/app/blobs/uploads/?digest=${sha256(bytes)}`, { body: new Uint8Array(bytes) }))
        .status
    const statuses = await Promise.all(contents(8).map(push))
    expect([counted(statuses, 201), counted(statuses, 403)], statuses.join()).toEqual([3, 5])
    expect(await usedBytes()).toBe(used + 900_000)
  })

  test('of unknown length: never more than there is room for, however they interleave', async () => {
    const used = await usedBytes()
    await setQuota('small', used + 1_000_000)
    const push = async (bytes: Buffer) => {
      const location = (await client('POST', '/v2/small/app/blobs/uploads/')).headers.get('location')!
      const body = Readable.toWeb(
        Readable.from([...Array(10).keys()].map((part) => bytes.subarray(part * 30_000, (part + 1) * 30_000))),
      )
      return { location, ...(await client('PATCH', location, { body: body as ReadableStream })) }
    }
    const replies = await Promise.all(contents(8).map(push))
    const taken = replies.filter(({ status }) => status === 202)
    expect(
      counted(
        replies.map(({ status }) => status),
        403,
      ),
    ).toBe(8 - taken.length)
    expect(taken.length).toBeGreaterThan(0)
    expect(taken.length).toBeLessThanOrEqual(3)
    expect(await usedBytes(), 'what was reserved is free again').toBe(used + taken.length * 300_000)
    for (const { location } of replies) await client('DELETE', location)
  })

  test('404 for all but the first that ends an upload, whatever each of them brought', async () => {
    const used = await usedBytes()
    await setQuota('small', used + 1_000_000)
    const location = (await client('POST', '/v2/small/app/blobs/uploads/')).headers.get('location')!
    const end = async (bytes: Buffer) =>
      (await client('PUT', `${location}&digest=${sha256(bytes)}`, { body: new Uint8Array(bytes) })).status
    const statuses = await Promise.all(contents(3).map(end))
    expect(statuses.sort()).toEqual([201, 404, 404])
    expect(await usedBytes()).toBe(used + 300_000)
  })
})

async function tokenOf(tenant: string): Promise<string> {
  const developer = await platform.member(tenant, 'DEVELOPER')
  return (await developer.post('/api/v1/registry/tokens', { name: 'raw' })).body.token
}

describe('limits', () => {
  test('429 TOOMANYREQUESTS when a tenant has a thousand uploads under way; ending one makes room', async () => {
    const location = (await client('POST', '/v2/small/many/blobs/uploads/')).headers.get('location')!
    await transaction(platform.services.db, 'system', async (tx) => {
      const { repositoryId } = await tx
        .selectFrom('registryUploads')
        .select('repositoryId')
        .where('tenantId', '=', tenantId)
        .executeTakeFirstOrThrow()
      const rows = Array.from({ length: 999 }, () => ({ id: newId(), tenantId, repositoryId }))
      await tx.insertInto('registryUploads').values(rows).execute()
    })
    const refused = await client('POST', '/v2/small/many/blobs/uploads/')
    expect([refused.status, refused.body.errors[0].code]).toEqual([429, 'TOOMANYREQUESTS'])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    await client('DELETE', location)
    expect((await client('POST', '/v2/small/many/blobs/uploads/')).status).toBe(202)
  })

  test('429 TOOMANYREQUESTS for an address that tries many tokens; one that is wrong stays a 401', async () => {
    const stubborn = ociClient(platform, newTokenSecret().token)
    for (let time = 0; time < 70; time++) expect((await stubborn('GET', '/v2/')).status).toBe(401)
    const statuses: number[] = []
    for (let guess = 0; guess < 60; guess++) {
      statuses.push((await ociClient(platform, newTokenSecret().token)('GET', '/v2/')).status)
    }
    expect(statuses).toEqual([...Array(59).fill(401), 429])
    const refused = await ociClient(platform, newTokenSecret().token)('GET', '/v2/')
    expect(refused.body.errors[0].code).toBe('TOOMANYREQUESTS')
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await stubborn('GET', '/v2/')).headers.get('www-authenticate')).toMatch(/^Basic/)
  })
})
