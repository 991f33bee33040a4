import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform, testPassword } from '../../../test/harness.ts'

let platform: TestPlatform
let administrator: TestClient
let outsider: TestClient
beforeAll(async () => {
  platform = await startTestPlatform()
  await platform.tenant('acme')
  await platform.tenant('other')
  administrator = await platform.member('acme', 'ADMIN')
  outsider = await platform.member('other', 'VIEWER')
})
afterAll(() => platform?.stop())

const nobody = '00000000-0000-7000-8000-000000000000'
const fresh = () => `new-${crypto.randomUUID().slice(0, 8)}@acme.example`
const signsIn = async (username: string, password: string) =>
  (await platform.anonymous('POST', '/auth/jwt/login', { body: new URLSearchParams({ username, password }) })).status

describe('GET /api/v1/settings/users', () => {
  test('200 lists members of the current tenant alone, each with the role', async () => {
    const { body } = await administrator.get('/api/v1/settings/users')
    const emails = body.items.map((item: { email: string }) => item.email)
    expect(emails).toContain(administrator.email)
    expect(emails).not.toContain(outsider.email)
    expect(body.items[0]).toMatchObject({ role: 'ADMIN', is_active: true })
    expect(body.items[0]).not.toHaveProperty('password_hash')
  })

  test('200 sorts, pages without overlap and finds parts literally', async () => {
    for (let i = 0; i < 4; i++) await platform.member('acme', 'VIEWER')
    const all = (await administrator.get('/api/v1/settings/users?sort=email')).body
    const pages = await Promise.all(
      [1, 2, 3].map((page) => administrator.get(`/api/v1/settings/users?sort=email&page_size=2&page=${page}`)),
    )
    const paged = pages.flatMap((page) => page.body.items)
    expect(paged.slice(0, all.total)).toEqual(all.items)
    const emails = all.items.map((item: { email: string }) => item.email)
    expect(emails).toEqual([...emails].sort())
    expect((await administrator.get(`/api/v1/settings/users?q=${administrator.email.toUpperCase()}`)).body.total).toBe(
      1,
    )
    expect((await administrator.get('/api/v1/settings/users?q=%25')).body.total).toBe(0)
    const past = (await administrator.get('/api/v1/settings/users?page=99')).body
    expect([past.items.length, past.total]).toEqual([0, all.total])
  })
})

describe('GET /api/v1/settings/roles', () => {
  test('200 is a ladder: every role holds all that the one before it holds', async () => {
    const { body } = await outsider.get('/api/v1/settings/roles')
    expect(body.roles.map((role: { name: string }) => role.name)).toEqual([
      'VIEWER',
      'OPERATOR',
      'DEVELOPER',
      'MAINTAINER',
      'ADMIN',
    ])
    for (const [index, role] of body.roles.slice(1).entries())
      expect(role.permissions).toEqual(expect.arrayContaining(body.roles[index].permissions))
    expect(body.roles.at(-1).permissions.toSorted()).toEqual(
      body.permissions.map((permission: { name: string }) => permission.name).toSorted(),
    )
  })
})

describe('POST /api/v1/settings/users/invite', () => {
  test('200 gives an existing account a role, and again changes it', async () => {
    const path = '/api/v1/settings/users/invite'
    const first = await administrator.post(path, { email: outsider.email.toUpperCase(), role: 'VIEWER' })
    expect(first.body).toMatchObject({ id: outsider.userId, role: 'VIEWER' })
    const again = await administrator.post(path, { email: outsider.email, tenant_code: 'ACME', role: 'OPERATOR' })
    expect(again.body.role).toBe('OPERATOR')
    expect((await outsider.get('/api/v1/settings/roles', { tenant: 'acme' })).status).toBe(200)
    await administrator.delete(`/api/v1/settings/users/${outsider.userId}/role`)
  })

  test('404 unknown address, 403 another tenant, 422 unknown role with the allowed ones', async () => {
    const path = '/api/v1/settings/users/invite'
    expect((await administrator.post(path, { email: 'nobody@acme.example', role: 'VIEWER' })).status).toBe(404)
    const foreign = await administrator.post(path, { email: outsider.email, tenant_code: 'other', role: 'ADMIN' })
    expect(foreign.status).toBe(403)
    const unknown = await administrator.post(path, { email: outsider.email, role: 'OWNER' })
    expect(unknown.status).toBe(422)
    expect(unknown.body.detail[0]).toMatchObject({ loc: ['body', 'role'], msg: expect.stringContaining('MAINTAINER') })
  })
})

describe('POST /api/v1/settings/users/create', () => {
  test('200 makes an account that signs in, is no global administrator, and leaves an audit row without the password', async () => {
    const email = fresh()
    const body = { email, password: 'a good secret', role: 'DEVELOPER', is_superuser: true }
    const reply = await administrator.post('/api/v1/settings/users/create', body)
    expect(reply.body).toMatchObject({ email, role: 'DEVELOPER', is_superuser: false })
    expect(await signsIn(email, 'a good secret')).toBe(200)
    const audit = await administrator.get('/api/v1/settings/audit?action=member.create')
    expect(audit.body.items[0]).toMatchObject({ actor: administrator.email, target: email, outcome: 'success' })
    expect(audit.text).not.toContain('a good secret')
  })

  test('409 for an address that is taken in any case of letters, 400 for an unfit password; neither leaves a member', async () => {
    const path = '/api/v1/settings/users/create'
    const before = (await administrator.get('/api/v1/settings/users')).body.total
    const taken = { email: outsider.email.toUpperCase(), password: 'a good secret', role: 'VIEWER' }
    expect((await administrator.post(path, taken)).body).toMatchObject({
      code: 'conflict',
      detail: 'REGISTER_USER_ALREADY_EXISTS',
    })
    const weak = await administrator.post(path, { email: fresh(), password: 'short', role: 'VIEWER' })
    expect([weak.status, weak.body.detail.code]).toEqual([400, 'REGISTER_INVALID_PASSWORD'])
    expect((await administrator.get('/api/v1/settings/users')).body.total).toBe(before)
  })
})

describe('/api/v1/settings/users/{user_id}/role', () => {
  test('PATCH 200 changes the role, which counts from the next request on', async () => {
    const member = await platform.member('acme', 'VIEWER')
    const path = `/api/v1/settings/users/${member.userId}/role`
    expect((await member.get('/api/v1/settings/users')).status).toBe(403)
    expect((await administrator.patch(path, { role: 'ADMIN' })).body.role).toBe('ADMIN')
    expect((await member.get('/api/v1/settings/users')).status).toBe(200)
    expect((await administrator.patch(path, { tenant_code: 'other', role: 'ADMIN' })).status).toBe(403)
    expect((await administrator.patch(`/api/v1/settings/users/${nobody}/role`, { role: 'VIEWER' })).status).toBe(404)
  })

  test('DELETE 200 ends the membership, 404 where there is none, 403 for another tenant than the chosen one', async () => {
    const member = await platform.member('acme', 'VIEWER')
    const path = `/api/v1/settings/users/${member.userId}/role`
    expect((await administrator.delete(`${path}?tenant=other`)).status).toBe(403)
    expect((await administrator.delete(path)).body).toEqual({ user_id: member.userId, tenant_code: 'acme' })
    expect((await administrator.delete(path)).status).toBe(404)
    expect((await member.get('/api/v1/settings/roles')).status).toBe(404)
    expect((await member.get('/users/me')).status).toBe(200)
    expect((await administrator.delete(`/api/v1/settings/users/${outsider.userId}/role`)).status).toBe(404)
  })
})

describe('GET /api/v1/system/users', () => {
  test('200 lists everybody with the roles in all tenants, or the members of one', async () => {
    await platform.admin.post('/api/v1/system/users/invite', {
      email: outsider.email,
      tenant_code: 'acme',
      role: 'VIEWER',
    })
    const { body } = await platform.admin.get(`/api/v1/system/users?q=${outsider.userId}`)
    expect(body.items[0].roles).toEqual([
      { tenant_code: 'acme', tenant_name: 'acme', role: 'VIEWER' },
      { tenant_code: 'other', tenant_name: 'other', role: 'VIEWER' },
    ])
    const other = await platform.admin.get('/api/v1/system/users?tenant=OTHER')
    expect(other.body.items.map((item: { id: string }) => item.id)).toEqual([outsider.userId])
    expect((await platform.admin.get('/api/v1/system/users?tenant=none')).body.total).toBe(0)
    await platform.admin.delete(`/api/v1/system/users/${outsider.userId}/role?tenant=acme`)
  })
})

describe('/api/v1/system/users/…', () => {
  test('POST invite and create: 404 unknown address, 422 unknown tenant, 409 taken, 400 unfit password', async () => {
    const invite = (json: object) => platform.admin.post('/api/v1/system/users/invite', json)
    const create = (json: object) => platform.admin.post('/api/v1/system/users/create', json)
    expect((await invite({ email: 'no@no.no', tenant_code: 'acme', role: 'VIEWER' })).status).toBe(404)
    const unknown = await invite({ email: outsider.email, tenant_code: 'none', role: 'VIEWER' })
    expect(unknown.body.detail[0].loc).toEqual(['body', 'tenant_code'])
    const email = fresh()
    const body = { email, password: 'a good secret', tenant_code: 'acme', role: 'VIEWER' }
    expect((await create({ ...body, tenant_code: 'none' })).status).toBe(422)
    expect((await create(body)).body.roles).toEqual([{ tenant_code: 'acme', tenant_name: 'acme', role: 'VIEWER' }])
    expect((await create(body)).body.detail).toBe('REGISTER_USER_ALREADY_EXISTS')
    expect((await create({ ...body, email: fresh(), password: email })).status).toBe(200)
    const ownName = fresh()
    expect((await create({ ...body, email: ownName, password: ownName })).status).toBe(400)
  })

  test('PATCH role grants in any tenant; DELETE role needs the tenant and answers 404 for the global membership', async () => {
    const path = `/api/v1/system/users/${outsider.userId}/role`
    const granted = await platform.admin.patch(path, { tenant_code: 'acme', role: 'MAINTAINER' })
    expect(granted.body.roles[0]).toMatchObject({ tenant_code: 'acme', role: 'MAINTAINER' })
    expect((await platform.admin.patch(path, { role: 'VIEWER' })).status).toBe(422)
    expect((await platform.admin.delete(path)).status).toBe(422)
    expect((await platform.admin.delete(`${path}?tenant=acme`)).body.tenant_code).toBe('acme')
    expect((await platform.admin.delete(`${path}?tenant=acme`)).status).toBe(404)
    const global = `/api/v1/system/users/${platform.admin.userId}/role?tenant=acme`
    expect((await platform.admin.delete(global)).status).toBe(404)
  })

  test('global-admin: POST is repeatable, DELETE keeps the roles, 409 for the last one', async () => {
    const member = await platform.member('acme', 'OPERATOR')
    const path = `/api/v1/system/users/${member.userId}/global-admin`
    for (let i = 0; i < 2; i++) expect((await platform.admin.post(path)).body.is_superuser).toBe(true)
    expect((await member.get('/api/v1/system/users')).status).toBe(200)
    expect((await platform.admin.delete(path)).body).toMatchObject({
      is_superuser: false,
      roles: [{ tenant_code: 'acme', role: 'OPERATOR' }],
    })
    expect((await platform.admin.delete(`/api/v1/system/users/${platform.admin.userId}/global-admin`)).status).toBe(409)
  })

  test('disable ends logins at once and keeps memberships; enable lets in again; 400 for the own account', async () => {
    const member = await platform.member('acme', 'VIEWER')
    const disabled = await platform.admin.post(`/api/v1/system/users/${member.userId}/disable`)
    expect(disabled.body).toMatchObject({ is_active: false, roles: [{ role: 'VIEWER' }] })
    expect((await member.get('/users/me')).status).toBe(401)
    expect(await signsIn(member.email, testPassword)).toBe(400)
    await platform.admin.post(`/api/v1/system/users/${member.userId}/enable`)
    expect(await signsIn(member.email, testPassword)).toBe(200)
    expect((await member.get('/users/me')).status).toBe(401)
    expect((await platform.admin.post(`/api/v1/system/users/${platform.admin.userId}/disable`)).status).toBe(400)
  })

  test('DELETE removes the account, and the audit keeps its address; 400 for the own one, 404 for an unknown one', async () => {
    const member = await platform.member('acme', 'DEVELOPER')
    await member.patch('/users/me', { full_name: 'Gone' })
    const gone = await platform.admin.delete(`/api/v1/system/users/${member.userId}`)
    expect(gone.body).toEqual({ id: member.userId, email: member.email })
    expect((await platform.admin.delete(`/api/v1/system/users/${member.userId}`)).status).toBe(404)
    const audit = await platform.admin.get(`/api/v1/system/audit?actor=${member.email}`)
    expect(audit.body.items[0]).toMatchObject({ action: 'user.update_profile', actor: member.email })
    const own = platform.admin.userId.toUpperCase()
    expect((await platform.admin.delete(`/api/v1/system/users/${own}`)).status).toBe(400)
  })

  test('409 once of two administrators who disable each other at the same time', async () => {
    const one = await platform.member('acme', 'VIEWER')
    const two = await platform.member('acme', 'VIEWER')
    for (const { userId } of [one, two]) await platform.admin.post(`/api/v1/system/users/${userId}/global-admin`)
    await one.post(`/api/v1/system/users/${platform.admin.userId}/disable`)
    const replies = await Promise.all([
      one.post(`/api/v1/system/users/${two.userId}/disable`),
      two.post(`/api/v1/system/users/${one.userId}/disable`),
    ])
    // The one that lost finds itself disabled, or the other the last.
    expect(replies.map((reply) => reply.status).filter((status) => status === 200)).toHaveLength(1)
    const left = replies[0]!.status === 200 ? one : two
    expect((await left.post(`/api/v1/system/users/${platform.admin.userId}/enable`)).status).toBe(200)
  })
})
