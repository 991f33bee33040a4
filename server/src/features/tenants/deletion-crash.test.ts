import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestPlatform } from '../../../test/harness.ts'
import { checkAudit } from '../audit/audit.api.ts'
import { fillEveryTable } from './filled-tenant.fixture.ts'

const program = fileURLToPath(new URL('../../main.ts', import.meta.url))
let platform: TestPlatform
const workers: ChildProcess[] = []
beforeAll(async () => {
  // It answers only; the work is done by processes that are killed.
  platform = await startTestPlatform({ PLATFORM_MLOPS_ROLES: 'web' })
})
afterAll(async () => {
  for (const worker of workers) worker.kill('SIGKILL')
  await platform?.stop()
})

function startWorker(): ChildProcess {
  const env = {
    PATH: process.env.PATH,
    PLATFORM_MLOPS_ROLES: 'worker',
    PLATFORM_MLOPS_DATABASE_URL: platform.database.ownerUrl,
    PLATFORM_MLOPS_DATA_DIR: platform.dataDir,
    PLATFORM_MLOPS_LOG_LEVEL: 'error',
  }
  const worker = spawn(process.execPath, [program], { env, stdio: ['ignore', 'ignore', 'inherit'] })
  workers.push(worker)
  return worker
}

async function asOwner<T>(statement: string): Promise<T[]> {
  const client = new pg.Client({ connectionString: platform.database.ownerUrl })
  await client.connect()
  try {
    const results = await client.query(`set app.system = 'on'; ${statement}`)
    return (results as unknown as { rows: T[] }[])[1]!.rows
  } finally {
    await client.end()
  }
}

/** Rows of the tenant per table that holds any. */
async function rowsOf(tenantId: string): Promise<Record<string, number>> {
  const tables = await asOwner<{ name: string }>(`
    select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and not a.attisdropped order by c.relname`)
  const counts = tables.map(
    ({ name }) => `select '${name}' as name, count(*)::int as n from ${name} where tenant_id = '${tenantId}'`,
  )
  const rows = await asOwner<{ name: string; n: number }>(counts.join(' union all '))
  return Object.fromEntries(rows.filter(({ n }) => n > 0).map(({ name, n }) => [name, n]))
}

/** Starts a worker, kills it as soon as that has come true, and says what there was then. */
async function killedWhen<T>(look: () => Promise<T | null | false>): Promise<T> {
  const worker = startWorker()
  try {
    return await eventually(look, 120)
  } finally {
    worker.kill('SIGKILL')
    await new Promise((resolve) => worker.once('exit', resolve))
  }
}

describe('the deletion of a tenant full of everything', () => {
  test('goes on where it was after each of five kills -9, whatever it was at, and leaves nothing', async () => {
    const { id } = await platform.tenant('large')
    const tables = await fillEveryTable(platform.database.ownerUrl, id)
    await asOwner(`
      insert into notifications (id, tenant_id, user_id, group_name, title, in_app, email_state)
      select gen_random_uuid(), '${id}', u.id, 'admin', 'filled', true, 'none'
      from generate_series(1, 5000), (select id from users limit 1) u`)
    await asOwner(`
      insert into audit_events (id, tenant_id, tenant_code, at, action, outcome)
      select gen_random_uuid(), '${id}', 'large', now() - n * interval '1 s', 'test.made', 'success'
      from generate_series(1, 12000) n`)
    // Each row takes a while, so that there is something to interrupt.
    await asOwner(`
      create function slowly() returns trigger language plpgsql as $$ begin perform pg_sleep(0.0001); return old; end $$;
      create trigger slowly before delete on notifications for each row execute function slowly();
      create trigger slowly before delete on audit_events for each row execute function slowly()`)
    expect(Object.keys(await rowsOf(id))).toEqual(expect.arrayContaining(tables))
    const { body } = await platform.admin.post(`/api/v1/settings/tenants/${id}/deletion`, { confirm_code: 'large' })
    const deletion = async () => (await platform.admin.get(`/api/v1/settings/tenants/deletions/${body.id}`)).body
    const rows = async (table: string) => (await rowsOf(id))[table] ?? 0

    await killedWhen(async () => (await deletion()).status === 'RUNNING')
    const seen: number[] = []
    for (let kills = 0; kills < 3; kills++) {
      const before = await rows('notifications')
      seen.push(
        await killedWhen(async () => {
          const left = await rows('notifications')
          return left < before && { left }
        }).then(({ left }) => left),
      )
    }
    const entries = await rows('audit_events')
    await killedWhen(async () => (await rows('audit_events')) < entries)
    const early = await deletion()
    expect(early.status).toBe('RUNNING')

    startWorker()
    const done = await eventually(async () => {
      const { status, error } = await deletion()
      return ['DONE', 'FAILED'].includes(status) ? { status, error } : null
    }, 120)
    expect(done).toEqual({ status: 'DONE', error: null })
    expect(seen).toEqual(seen.toSorted((a, b) => b - a))
    expect(await rowsOf(id)).toEqual({ tenant_deletions: 1 })
    const [tombstones] = await asOwner<{ n: number }>(
      `select count(*)::int as n from audit_events where action = 'tenant.deleted' and target = 'large'`,
    )
    expect(tombstones!.n).toBe(1)
    const ctx = {
      ...platform.services,
      kind: 'system',
      scope: 'system',
      actor: null,
      requestId: 't',
      audit: null,
    } as const
    expect((await checkAudit(ctx)).faults).toEqual([])
  }, 600_000)
})
