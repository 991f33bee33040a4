import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestPlatform } from '../../../test/harness.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startTestPlatform()
})
afterAll(() => platform?.stop())

const nobody = '00000000-0000-7000-8000-000000000000'
const create = (body: object) => platform.admin.post('/api/v1/settings/tenants', body)

describe('POST /api/v1/settings/tenants', () => {
  test('201 makes a tenant whose code is stored in lower case, with every setting complete', async () => {
    const reply = await create({
      code: 'Acme-1',
      name: 'Acme',
      kpi_targets: { accuracy: 0.9 },
      retention: { logs: 7 },
      shared_defaults: [{ kind: 'runtimes', framework: 'torchvision', variant_id: nobody }],
    })
    expect(reply.status).toBe(201)
    expect(reply.body).toMatchObject({
      code: 'acme-1',
      is_active: true,
      members: 0,
      deletion_id: null,
      kpi_targets: { accuracy: 0.9 },
      retention: { logs: 7, audit: 730 },
      shared_defaults: [{ framework: 'torchvision' }],
    })
    expect((await platform.admin.get('/api/v1/settings/roles', { tenant: 'ACME-1' })).status).toBe(200)
  })

  test('409 for a code that is taken, 422 for reserved and malformed ones and unknown settings', async () => {
    await create({ code: 'taken', name: 'Taken' })
    expect((await create({ code: 'TAKEN', name: 'Again' })).status).toBe(409)
    for (const code of ['shared', 'System', 'library', '-a', 'a-', 'a_b', 'a/b', '', 'x'.repeat(64)])
      expect((await create({ code, name: 'x' })).body.detail?.[0].loc, code).toEqual(['body', 'code'])
    expect((await create({ code: 'ok', name: '   ' })).status).toBe(422)
    expect((await create({ code: 'ok', name: 'x', features: { teleport: true } })).body.detail[0].loc).toEqual([
      'body',
      'features',
      'teleport',
    ])
    expect((await create({ code: 'ok', name: 'x', retention: { logs: -1 } })).status).toBe(422)
    expect((await create({ code: 'ok', name: 'x', retention: { wine: 1 } })).status).toBe(422)
    expect((await create({ code: 'ok', name: 'x', kpi_targets: { a: 'high' } })).status).toBe(422)
  })
})

describe('GET /api/v1/tenants', () => {
  test('200 lists what the caller belongs to with the role; everything for a global administrator', async () => {
    await platform.tenant('mine')
    await platform.tenant('theirs')
    const member = await platform.member('mine', 'OPERATOR')
    const { body } = await member.get('/api/v1/tenants', { tenant: null })
    expect(body.total).toBe(1)
    expect(body.items[0]).toMatchObject({ code: 'mine', role: 'OPERATOR', permissions: ['VIEW', 'OPERATE'] })
    const all = (await platform.admin.get('/api/v1/tenants', { tenant: null })).body.items
    expect(all.find((item: { code: string }) => item.code === 'theirs')).toMatchObject({ role: 'ADMIN' })
  })
})

describe('/api/v1/settings/tenants/{tenant_id}', () => {
  test('GET 200 with an ETag, 404 for an unknown one, 422 for what is no id', async () => {
    const { id } = (await create({ code: 'seen', name: 'Seen' })).body
    const reply = await platform.admin.get(`/api/v1/settings/tenants/${id}`)
    const etag = reply.headers.get('etag')!
    const again = await platform.admin.get(`/api/v1/settings/tenants/${id}`, { headers: { 'if-none-match': etag } })
    expect([reply.status, again.status]).toEqual([200, 304])
    expect((await platform.admin.get(`/api/v1/settings/tenants/${nobody}`)).status).toBe(404)
    expect((await platform.admin.get('/api/v1/settings/tenants/seen')).status).toBe(422)
    const listed = (await platform.admin.get('/api/v1/settings/tenants')).body.items
    expect(listed).toContainEqual(reply.body)
  })

  test('PATCH changes only what is present, ignores null, and 412 when it was changed meanwhile', async () => {
    const made = (await create({ code: 'patched', name: 'Old', retention: { logs: 7 } })).body
    const path = `/api/v1/settings/tenants/${made.id}`
    const etag = (await platform.admin.get(path)).headers.get('etag')!
    const headers = { 'if-match': etag }
    const changed = await platform.admin.patch(path, { name: 'New', kpi_targets: null, code: 'x' }, { headers })
    expect(changed.body).toMatchObject({ code: 'patched', name: 'New', retention: { logs: 7 } })
    expect((await platform.admin.patch(path, { name: 'Newer' }, { headers })).status).toBe(412)
  })

  test('PATCH is_active: members get 403, a global administrator does not, and on again opens it', async () => {
    const { id } = (await create({ code: 'switched', name: 'Switched' })).body
    const member = await platform.member('switched', 'ADMIN')
    const path = `/api/v1/settings/tenants/${id}`
    await platform.admin.patch(path, { is_active: false })
    expect((await member.get('/api/v1/settings/roles')).status).toBe(403)
    expect((await member.get('/api/v1/tenants', { tenant: null })).body.total).toBe(0)
    expect((await platform.admin.get('/api/v1/settings/roles', { tenant: 'switched' })).status).toBe(200)
    await platform.admin.patch(path, { is_active: true })
    expect((await member.get('/api/v1/settings/roles')).status).toBe(200)
  })

  test('PATCH features: what is switched off refuses every role with 403 and detail.feature, and only there', async () => {
    const toggles = (await platform.admin.get('/api/v1/settings/features')).body.items
    const { id } = (await create({ code: 'without', name: 'Without' })).body
    const path = `/api/v1/settings/tenants/${id}`
    expect((await platform.admin.get(path)).body.features).toEqual(
      Object.fromEntries(toggles.map((toggle: { key: string; default: boolean }) => [toggle.key, toggle.default])),
    )
    const changed = await platform.admin.patch(path, { features: { serving: false } })
    expect(changed.body.features.serving).toBe(false)
    const refused = await platform.admin.get('/api/v1/serving/endpoints', { tenant: 'without' })
    expect([refused.status, refused.body.detail]).toEqual([403, { feature: 'serving' }])
    expect((await platform.admin.get('/api/v1/serving/endpoints', { tenant: 'default' })).status).toBe(200)
  })
})
