import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { ociClient } from './registry.fixture.ts'

let platform: TestPlatform
let viewer: TestClient
beforeAll(async () => {
  platform = await startTestPlatform()
  await platform.tenant('acme')
  await platform.tenant('other')
  viewer = await platform.member('acme', 'VIEWER')
})
afterAll(() => platform?.stop())

const ping = (token: string) => ociClient(platform, token)('GET', '/v2/')

describe('POST /api/v1/registry/tokens', () => {
  test('201 shows the secret once, and it signs in', async () => {
    const made = await viewer.post('/api/v1/registry/tokens', { name: 'laptop', expires_in_days: 30 })
    expect(made.status).toBe(201)
    expect(made.body).toMatchObject({ name: 'laptop', username: viewer.email, registry: new URL(platform.url).host })
    expect(made.body.token).toMatch(/^mlr_[0-9A-Za-z]{10}_[\w-]{43}$/)
    const days = (Date.parse(made.body.expires_at) - Date.now()) / 86_400_000
    expect(days).toBeGreaterThan(29.9)
    expect(days).toBeLessThan(30.1)
    expect((await ping(made.body.token)).status).toBe(200)
    const list = await viewer.get('/api/v1/registry/tokens')
    expect(list.text).not.toContain(made.body.token)
  })

  test('201 without name and end', async () => {
    const made = await viewer.post('/api/v1/registry/tokens', {})
    expect(made.body).toMatchObject({ expires_at: null })
    expect(made.body.token).toContain(made.body.name)
  })

  test('422 for an end that is none', async () => {
    for (const days of [0, -1, 3651, 1.5, '30']) {
      expect((await viewer.post('/api/v1/registry/tokens', { expires_in_days: days })).status, String(days)).toBe(422)
    }
  })

  test('the token is no credential of the rest of the service', async () => {
    const { token } = (await viewer.post('/api/v1/registry/tokens', {})).body
    const headers = { authorization: `Bearer ${token}`, 'x-tenant': 'acme' }
    expect((await platform.anonymous('GET', '/api/v1/registry/tokens', { headers })).status).toBe(401)
  })
})

describe('GET /api/v1/registry/tokens', () => {
  test('200 lists one’s own, all of the tenant for who manages it, and no other tenant’s', async () => {
    const colleague = await platform.member('acme', 'DEVELOPER')
    const manager = await platform.member('acme', 'ADMIN')
    const stranger = await platform.member('other', 'ADMIN')
    const { id } = (await colleague.post('/api/v1/registry/tokens', { name: 'ci' })).body
    const ids = async (client: TestClient) =>
      (await client.get('/api/v1/registry/tokens')).body.items.map((item: { id: string }) => item.id)
    expect(await ids(colleague)).toEqual([id])
    expect(await ids(viewer)).not.toContain(id)
    expect(await ids(manager)).toContain(id)
    expect(await ids(stranger)).toEqual([])
  })

  test('200 tells when a token was last used', async () => {
    const { id, token } = (await viewer.post('/api/v1/registry/tokens', {})).body
    await ping(token)
    await eventually(async () => {
      const { items } = (await viewer.get('/api/v1/registry/tokens')).body
      return items.find((item: { id: string }) => item.id === id).last_used_at
    })
  })
})

describe('POST /api/v1/registry/tokens/{token_id}:revoke', () => {
  test('200 blocks at once, even right after a use, and again changes nothing', async () => {
    const { id, token } = (await viewer.post('/api/v1/registry/tokens', {})).body
    expect((await ping(token)).status).toBe(200)
    const revoked = await viewer.post(`/api/v1/registry/tokens/${id}:revoke`)
    expect(revoked.status).toBe(200)
    expect(revoked.body.status).toBe('revoked')
    await eventually(async () => (await ping(token)).status === 401, 0.5)
    const again = await viewer.post(`/api/v1/registry/tokens/${id}:revoke`)
    expect(again.body).toEqual(revoked.body)
  })

  test('404 for another’s token, unless one manages the tenant', async () => {
    const colleague = await platform.member('acme', 'DEVELOPER')
    const { id } = (await colleague.post('/api/v1/registry/tokens', {})).body
    expect((await viewer.post(`/api/v1/registry/tokens/${id}:revoke`)).status).toBe(404)
    const stranger = await platform.member('other', 'ADMIN')
    expect((await stranger.post(`/api/v1/registry/tokens/${id}:revoke`)).status).toBe(404)
    const manager = await platform.member('acme', 'ADMIN')
    expect((await manager.post(`/api/v1/registry/tokens/${id}:revoke`)).status).toBe(200)
  })

  test('422 for what is no id', async () => {
    expect((await viewer.post('/api/v1/registry/tokens/nothing:revoke')).status).toBe(422)
  })
})

describe('rights follow the owner at the moment of use', () => {
  test('401 when the token has expired or its owner is switched off', async () => {
    const member = await platform.member('acme', 'VIEWER')
    const { token, id } = (await member.post('/api/v1/registry/tokens', { expires_in_days: 1 })).body
    const system = <T>(work: Parameters<typeof transaction<T>>[2]) => transaction(platform.services.db, 'system', work)
    await system((tx) =>
      tx
        .updateTable('registryTokens')
        .set({ expiresAt: new Date(0) })
        .where('id', '=', id)
        .execute(),
    )
    expect((await ping(token)).status).toBe(401)
    await system((tx) => tx.updateTable('registryTokens').set({ expiresAt: null }).where('id', '=', id).execute())
    expect((await ping(token)).status).toBe(200)
    await system((tx) => tx.updateTable('users').set({ isActive: false }).where('id', '=', member.userId).execute())
    await eventually(async () => (await ping(token)).status === 401)
  })

  test('403 on every address when the owner is no longer a member, or the tenant is switched off', async () => {
    const { id: tenantId } = await platform.tenant('closing')
    const member = await platform.member('closing', 'VIEWER')
    const { token } = (await member.post('/api/v1/registry/tokens', {})).body
    const system = <T>(work: Parameters<typeof transaction<T>>[2]) => transaction(platform.services.db, 'system', work)
    await system((tx) => tx.updateTable('tenants').set({ isActive: false }).where('id', '=', tenantId).execute())
    expect((await ping(token)).status).toBe(403)
    await system((tx) => tx.updateTable('tenants').set({ isActive: true }).where('id', '=', tenantId).execute())
    await eventually(async () => (await ping(token)).status === 200)
    await system((tx) => tx.deleteFrom('memberships').where('userId', '=', member.userId).execute())
    await eventually(async () => (await ping(token)).status === 403)
  })
})
