import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { listen } from '../../../test/event-client.ts'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { type Notice, notify, notifyAdministrators } from './notifications.api.ts'

let platform: TestPlatform
let acme: { id: string; code: string }
let other: { id: string; code: string }
beforeAll(async () => {
  platform = await startTestPlatform()
  acme = await platform.tenant('acme')
  other = await platform.tenant('other')
})
afterAll(() => platform?.stop())

const nobody = '00000000-0000-7000-8000-000000000000'
const tell = (notice: Partial<Notice> & Pick<Notice, 'to'>) =>
  transaction(platform.services.db, { tenantId: notice.tenantId ?? acme.id }, (tx) =>
    notify(tx, { tenantId: acme.id, group: 'admin', title: 'Something happened', ...notice }),
  )
const titles = async (client: TestClient, query = '') =>
  (await client.get(`/api/v1/notifications${query}`)).body.items.map((item: { title: string }) => item.title)

describe('GET /api/v1/notifications', () => {
  test('200 shows the caller’s own of the current tenant, newest first, with pages and a filter', async () => {
    const member = await platform.member('acme', 'VIEWER')
    const colleague = await platform.member('acme', 'VIEWER')
    for (const title of ['one', 'two', 'three']) await tell({ title, to: { userIds: [member.userId] } })
    expect(await titles(member)).toEqual(['three', 'two', 'one'])
    expect(await titles(colleague)).toEqual([])
    const page = (await member.get('/api/v1/notifications?page=2&page_size=2')).body
    expect([page.total, page.items[0]]).toMatchObject([3, { title: 'one', tenant: 'acme', read: false, read_at: null }])
    await member.post(`/api/v1/notifications/${page.items[0].id}/read`)
    expect(await titles(member, '?unread=true')).toEqual(['three', 'two'])
    expect(await titles(member, '?unread=0')).toEqual(['one'])
  })

  test('200 shows nothing of another tenant, and what is about the installation in each', async () => {
    const member = await platform.member('acme', 'VIEWER')
    await platform.admin.post('/api/v1/system/users/invite', {
      email: member.email,
      tenant_code: 'other',
      role: 'VIEWER',
    })
    await tell({ title: 'of acme', to: { userIds: [member.userId] } })
    expect(await titles(member)).toEqual(['of acme'])
    expect((await member.get('/api/v1/notifications', { tenant: 'other' })).body.total).toBe(0)
    await transaction(platform.services.db, 'system', (tx) =>
      notifyAdministrators(tx, { group: 'admin', title: 'of all' }),
    )
    const told = await Promise.all(
      ['acme', 'other'].map((tenant) => platform.admin.get('/api/v1/notifications', { tenant })),
    )
    for (const { body } of told) expect(body.items[0]).toMatchObject({ title: 'of all', tenant: null })
  })
})

describe('notify', () => {
  test('tells everybody whose role holds the permission, each once per key', async () => {
    const viewer = await platform.member('acme', 'VIEWER')
    const maintainer = await platform.member('acme', 'MAINTAINER')
    const foreign = await platform.member('other', 'ADMIN')
    const disabled = await platform.member('acme', 'ADMIN')
    await platform.admin.post(`/api/v1/system/users/${disabled.userId}/disable`)
    for (let i = 0; i < 2; i++)
      await tell({ title: 'to deployers', dedupeKey: 'image:1', to: { permission: 'DEPLOY' } })
    expect(await titles(viewer)).toEqual([])
    expect(await titles(maintainer)).toEqual(['to deployers'])
    expect(await titles(foreign)).toEqual([])
    const told = await transaction(platform.services.db, 'system', (tx) =>
      tx.selectFrom('notifications').select('userId').where('title', '=', 'to deployers').execute(),
    )
    expect(told.map(({ userId }) => userId)).toContain(maintainer.userId)
    expect(told.map(({ userId }) => userId)).not.toContain(disabled.userId)
  })

  test('leaves nothing when the change it belongs to is rolled back', async () => {
    const member = await platform.member('acme', 'VIEWER')
    const failing = transaction(platform.services.db, { tenantId: acme.id }, async (tx) => {
      await notify(tx, { tenantId: acme.id, group: 'admin', title: 'never', to: { userIds: [member.userId] } })
      throw new Error('the change failed')
    })
    await expect(failing).rejects.toThrow('the change failed')
    expect(await titles(member)).toEqual([])
  })
})

describe('GET /api/v1/notifications/unread-count', () => {
  test('200 counts in total and per tenant, without a tenant chosen', async () => {
    const member = await platform.member('acme', 'VIEWER')
    await platform.admin.post('/api/v1/system/users/invite', {
      email: member.email,
      tenant_code: 'other',
      role: 'VIEWER',
    })
    for (let i = 0; i < 2; i++) await tell({ to: { userIds: [member.userId] } })
    await tell({ tenantId: other.id, to: { userIds: [member.userId] } })
    const { body } = await member.get('/api/v1/notifications/unread-count', { tenant: null })
    expect(body).toEqual({
      total: 3,
      tenants: [
        { tenant_code: 'acme', tenant_name: 'acme', unread: 2 },
        { tenant_code: 'other', tenant_name: 'other', unread: 1 },
      ],
      system: 0,
    })
  })

  test('200 counts nothing of a tenant that the person has left or that is switched off: nobody could read it', async () => {
    const closing = await platform.tenant('closing')
    const member = await platform.member('acme', 'VIEWER')
    for (const tenant_code of ['other', 'closing'])
      await platform.admin.post('/api/v1/system/users/invite', { email: member.email, tenant_code, role: 'VIEWER' })
    const everywhere = [acme.id, other.id, closing.id]
    for (const tenantId of everywhere) await tell({ tenantId, to: { userIds: [member.userId] } })
    const count = async () => (await member.get('/api/v1/notifications/unread-count', { tenant: null })).body
    expect((await count()).total).toBe(3)
    await platform.admin.delete(`/api/v1/system/users/${member.userId}/role?tenant=other`)
    await platform.admin.patch(`/api/v1/settings/tenants/${closing.id}`, { is_active: false })
    expect(await count()).toMatchObject({ total: 1, tenants: [{ tenant_code: 'acme', unread: 1 }] })
    await platform.admin.patch(`/api/v1/settings/tenants/${closing.id}`, { is_active: true })
    expect((await count()).total).toBe(2)
  })
})

describe('POST /api/v1/notifications/read-all and /api/v1/notifications/{notification_id}/read', () => {
  test('200 marks those of the current tenant alone, and again none', async () => {
    const member = await platform.member('acme', 'VIEWER')
    await platform.admin.post('/api/v1/system/users/invite', {
      email: member.email,
      tenant_code: 'other',
      role: 'VIEWER',
    })
    for (let i = 0; i < 2; i++) await tell({ to: { userIds: [member.userId] } })
    await tell({ tenantId: other.id, to: { userIds: [member.userId] } })
    expect((await member.post('/api/v1/notifications/read-all')).body).toEqual({ updated: 2 })
    expect((await member.post('/api/v1/notifications/read-all')).body).toEqual({ updated: 0 })
    expect((await member.get('/api/v1/notifications/unread-count')).body).toMatchObject({ total: 1 })
  })

  test('200 again keeps the first time; 404 for somebody else’s, with the bytes of an unknown one', async () => {
    const member = await platform.member('acme', 'VIEWER')
    const colleague = await platform.member('acme', 'ADMIN')
    await tell({ to: { userIds: [member.userId] } })
    const { id } = (await member.get('/api/v1/notifications')).body.items[0]
    const foreign = await colleague.post(`/api/v1/notifications/${id}/read`)
    const unknown = await colleague.post(`/api/v1/notifications/${nobody}/read`)
    expect(foreign.status).toBe(404)
    expect({ ...foreign.body, error_id: 0 }).toEqual({ ...unknown.body, error_id: 0 })
    const first = await member.post(`/api/v1/notifications/${id}/read`)
    const again = await member.post(`/api/v1/notifications/${id}/read`)
    expect(first.body.read).toBe(true)
    const { items } = (await colleague.get(`/api/v1/settings/audit?action=notification.read&actor=${member.email}`))
      .body
    expect(items[0]).toMatchObject({ target: id, tenant: 'acme', outcome: 'success' })
    expect(again.body).toEqual(first.body)
    expect((await member.post('/api/v1/notifications/7/read')).status).toBe(422)
  })
})

describe('/api/v1/notifications/preferences', () => {
  test('PUT 200 replaces the whole setting, in the order of the catalogue; 422 names an unknown group', async () => {
    const member = await platform.member('acme', 'VIEWER')
    const before = (await member.get('/api/v1/notifications/preferences', { tenant: null })).body
    expect(before.items).toContainEqual({ group: 'admin', title: 'Administration', in_app: true, email: true })
    const off = { in_app: false, email: false }
    const set = await member.put('/api/v1/notifications/preferences', { prefs: { admin: off } }, { tenant: null })
    expect(set.body.items.map((item: { group: string }) => item.group)).toEqual(
      before.items.map((item: { group: string }) => item.group),
    )
    expect(set.body.items.find((item: { group: string }) => item.group === 'admin')).toMatchObject(off)
    await tell({ to: { userIds: [member.userId] } })
    expect(await titles(member)).toEqual([])
    const unknown = await member.put('/api/v1/notifications/preferences', { prefs: { wine: off } })
    expect(unknown.body.detail[0].loc).toEqual(['body', 'prefs', 'wine'])
    expect((await member.put('/api/v1/notifications/preferences', { prefs: { admin: { email: 'no' } } })).status).toBe(
      422,
    )
    expect((await member.put('/api/v1/notifications/preferences', { prefs: {} })).body).toEqual(before)
  })
})

describe('GET /api/v1/stream/notifications', () => {
  test('200 tells the caller of new ones and of what was read elsewhere, and nobody else', async () => {
    const member = await platform.member('acme', 'VIEWER')
    const colleague = await platform.member('acme', 'VIEWER')
    const own = await listen(platform.url, member, '/api/v1/stream/notifications')
    const others = await listen(platform.url, colleague, '/api/v1/stream/notifications')
    await own.until(`event: connected\ndata: {"channel":"notifications:${member.userId}"}`)
    await tell({ to: { userIds: [member.userId] } })
    const { id } = (await member.get('/api/v1/notifications')).body.items[0]
    await own.until(`event: notification\ndata: {"id":"${id}","group":"admin","unread":1}`)
    await member.post(`/api/v1/notifications/${id}/read`)
    await own.until(`data: {"id":"${id}","group":"admin","unread":0}`)
    await tell({ to: { userIds: [colleague.userId] } })
    await others.until('"unread":1')
    expect(others.text()).not.toContain(id)
    own.close()
    others.close()
  })
})
