import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { listen } from '../../../test/event-client.ts'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { fillEveryTable } from './filled-tenant.fixture.ts'

let platform: TestPlatform
let admin: TestClient
beforeAll(async () => {
  platform = await startTestPlatform()
  admin = platform.admin
})
afterAll(() => platform?.stop())

const nobody = '00000000-0000-7000-8000-000000000000'
const start = (id: string, code: string) =>
  admin.post(`/api/v1/settings/tenants/${id}/deletion`, { confirm_code: code })
const ended = (id: string) =>
  eventually(async () => {
    const { body } = await admin.get(`/api/v1/settings/tenants/deletions/${id}`)
    return ['DONE', 'FAILED'].includes(body.status) ? body : null
  })

describe('GET /api/v1/settings/tenants/{tenant_id}/deletion-preview', () => {
  test('200 counts what there is, 404 for an unknown tenant', async () => {
    const { id } = await platform.tenant('counted')
    await platform.member('counted', 'VIEWER')
    await platform.member('counted', 'VIEWER')
    const { body } = await admin.get(`/api/v1/settings/tenants/${id}/deletion-preview`)
    const counts: number[] = Object.values(body.counts)
    expect(body).toMatchObject({ tenant_code: 'counted', counts: { memberships: 2 } })
    expect(body.total).toBe(counts.reduce((sum, count) => sum + count))
    expect(counts).not.toContain(0)
    expect((await admin.get(`/api/v1/settings/tenants/${nobody}/deletion-preview`)).status).toBe(404)
  })
})

describe('POST /api/v1/settings/tenants/{tenant_id}/deletion', () => {
  test('400 for another code, 404 for an unknown tenant; nothing is closed', async () => {
    const { id } = await platform.tenant('kept')
    expect((await start(id, 'KEPT')).status).toBe(400)
    expect((await start(nobody, 'kept')).status).toBe(404)
    expect((await admin.get(`/api/v1/settings/tenants/${id}`)).body.is_active).toBe(true)
  })

  test('202 removes every row of the tenant and nothing of another; the audit keeps a tombstone', async () => {
    const { id } = await platform.tenant('gone')
    const other = await platform.tenant('neighbour')
    const member = await platform.member('gone', 'ADMIN')
    await platform.member('neighbour', 'ADMIN')
    await member.post('/api/v1/settings/users/invite', { email: admin.email, role: 'VIEWER' })
    const accepted = await start(id, 'gone')
    expect(accepted.status).toBe(202)
    expect(accepted.body.status).toMatch(/^(PENDING|RUNNING|DONE)$/)
    const done = await ended(accepted.body.id)
    expect(done).toMatchObject({ status: 'DONE', tenant_code: 'gone', requested_by: admin.email, error: null })
    expect(done.steps.every((step: { status: string }) => step.status === 'DONE' || step.status === 'SKIPPED')).toBe(
      true,
    )
    expect(done.log).toContain('memberships: 2 rows removed')
    expect(await rowsOf(id)).toEqual({ tenant_deletions: 1 })
    expect((await rowsOf(other.id)).memberships).toBe(1)
    expect((await member.get('/users/me')).status).toBe(200)
    expect((await member.get('/api/v1/settings/roles')).status).toBe(404)
    const tombstone = (await admin.get('/api/v1/system/audit?action=tenant.deleted')).body.items[0]
    expect(tombstone).toMatchObject({ target: 'gone', tenant: null, detail: { requested_by: admin.email } })
    expect((await admin.get('/api/v1/settings/tenants/deletions')).body.items[0].id).toBe(done.id)
    const told = await admin.get('/api/v1/notifications', { tenant: 'default' })
    expect(told.body.items[0]).toMatchObject({ group: 'admin', tenant: null, title: 'Tenant gone is deleted' })
  })

  test('202 leaves no row in any table that was filled before, whatever tables this release has', async () => {
    const { id } = await platform.tenant('full')
    const tables = await fillEveryTable(platform.database.ownerUrl, id)
    expect(Object.keys(await rowsOf(id)).toSorted()).toEqual(tables.toSorted())
    expect(tables.length).toBeGreaterThan(20)
    const done = await ended((await start(id, 'full')).body.id)
    expect([done.status, done.error]).toEqual(['DONE', null])
    expect(await rowsOf(id)).toEqual({ tenant_deletions: 1 })
  })

  test('409 when its deletion was asked for before, and it cannot be opened again', async () => {
    const { id } = await platform.tenant('stuck')
    await holdRun(id)
    const { body } = await start(id, 'stuck')
    const again = await start(id, 'stuck')
    expect([again.status, again.body.detail]).toEqual([409, { deletion_id: body.id }])
    expect((await admin.patch(`/api/v1/settings/tenants/${id}`, { is_active: true })).status).toBe(409)
    expect((await admin.post(`/api/v1/settings/tenants/deletions/${body.id}/retry`)).status).toBe(409)
    await releaseRun(id)
    expect((await ended(body.id)).status).toBe('DONE')
  })
})

describe('POST /api/v1/settings/tenants/deletions/{deletion_id}/retry', () => {
  test('202 repeats only the steps that are not done, 404 for an unknown deletion', async () => {
    const { id } = await platform.tenant('retried')
    // A row that nobody may remove makes the step fail until the way is free.
    await administer(`create function keep() returns trigger language plpgsql as $$ begin raise exception 'kept'; end $$;
      create trigger keep before delete on memberships for each row when (old.tenant_id = '${id}') execute function keep()`)
    await platform.member('retried', 'VIEWER')
    const failed = await ended((await start(id, 'retried')).body.id)
    expect(failed.status).toBe('FAILED')
    const before = Object.fromEntries(failed.steps.map((step: { id: string }) => [step.id, step]))
    expect(before.rows).toMatchObject({ status: 'FAILED', message: expect.stringContaining('kept') })
    expect(before['stop-work'].status).toBe('DONE')
    await administer('drop trigger keep on memberships')
    const retried = await admin.post(`/api/v1/settings/tenants/deletions/${failed.id}/retry`)
    expect(retried.status).toBe(202)
    const done = await ended(failed.id)
    expect(done.status).toBe('DONE')
    expect(done.steps[0]).toEqual(before['stop-work'])
    expect((await admin.post(`/api/v1/settings/tenants/deletions/${nobody}/retry`)).status).toBe(404)
  })
})

describe('GET /api/v1/stream/tenant-deletions/{id}', () => {
  test('200 says which channel and tells the steps, 404 for an unknown deletion', async () => {
    const { id } = await platform.tenant('watched')
    await holdRun(id)
    const { body } = await start(id, 'watched')
    const stream = await listen(platform.url, admin, `/api/v1/stream/tenant-deletions/${body.id}`)
    await stream.until(`"channel":"tenant-deletions:${body.id}"`)
    await releaseRun(id)
    await stream.until('"status":"DONE"')
    expect(stream.text()).toContain('event: deletion')
    expect(stream.text()).toContain('"step":"rows"')
    stream.close()
    expect((await admin.get(`/api/v1/stream/tenant-deletions/${nobody}`)).status).toBe(404)
  })
})

/** Rows of a tenant in every table that has such a column, asked of the catalogue by this test itself. */
async function rowsOf(tenantId: string): Promise<Record<string, number>> {
  const { rows: tables } = await query<{ name: string }>(
    `select table_name as name from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
     where column_name = 'tenant_id' and table_schema = 'public' and table_type = 'BASE TABLE'`,
  )
  const counts: Record<string, number> = {}
  for (const { name } of tables) {
    const { rows } = await query<{ n: number }>(
      `select count(*)::int as n from ${name} where tenant_id = '${tenantId}'`,
    )
    if (rows[0]!.n) counts[name] = rows[0]!.n
  }
  return counts
}

async function query<T>(text: string): Promise<{ rows: T[] }> {
  const client = await platform.database.pool.connect()
  try {
    await client.query("begin; set local app.system = 'on'")
    return { rows: (await client.query(text)).rows as T[] }
  } finally {
    await client.query('rollback')
    client.release()
  }
}

async function administer(statement: string): Promise<void> {
  const { default: pg } = await import('pg')
  const client = new pg.Client({ connectionString: platform.database.ownerUrl })
  await client.connect()
  await client.query(statement)
  await client.end()
}

/** A live run of the tenant that nobody works on: the deletion waits for its end. */
async function holdRun(tenantId: string): Promise<void> {
  await transaction(platform.services.db, 'system', (tx) =>
    tx.insertInto('runs').values({ id: crypto.randomUUID(), tenantId, kind: 'test.held', input: '{}' }).execute(),
  )
}

async function releaseRun(tenantId: string): Promise<void> {
  await transaction(platform.services.db, 'system', (tx) =>
    tx.updateTable('runs').set({ state: 'canceled' }).where('tenantId', '=', tenantId).execute(),
  )
}
