import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestPlatform } from '../../../test/harness.ts'

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

describe('the deletion of a tenant', () => {
  test('goes on where it was after each kill -9 of its worker, and leaves nothing', async () => {
    const { id } = await platform.tenant('large')
    await asOwner(`
      insert into notifications (id, tenant_id, user_id, group_name, title, in_app, email_state)
      select gen_random_uuid(), '${id}', u.id, 'admin', 'filled', true, 'none'
      from generate_series(1, 5000), (select id from users limit 1) u`)
    // Each row takes a while, so that there is something to interrupt.
    await asOwner(`
      create function slowly() returns trigger language plpgsql as $$ begin perform pg_sleep(0.0001); return old; end $$;
      create trigger slowly before delete on notifications for each row execute function slowly()`)
    const { body } = await platform.admin.post(`/api/v1/settings/tenants/${id}/deletion`, { confirm_code: 'large' })
    const rows = async () =>
      (await asOwner<{ n: number }>(`select count(*)::int as n from notifications where tenant_id = '${id}'`))[0]!.n

    const seen: number[] = []
    for (let kills = 0; kills < 3; kills++) {
      const before = await rows()
      const worker = startWorker()
      seen.push(
        await eventually(async () => {
          const left = await rows()
          return left < before ? left : null
        }, 60),
      )
      worker.kill('SIGKILL')
    }
    startWorker()
    const done = await eventually(async () => {
      const deletion = (await platform.admin.get(`/api/v1/settings/tenants/deletions/${body.id}`)).body
      return ['DONE', 'FAILED'].includes(deletion.status) ? deletion : null
    }, 90)
    expect([done.status, done.error]).toEqual(['DONE', null])
    expect(seen).toEqual(seen.toSorted((a, b) => b - a))
    expect(seen.at(-1)).toBeGreaterThan(0)
    expect(await rows()).toBe(0)
    const [tombstones] = await asOwner<{ n: number }>(
      `select count(*)::int as n from audit_events where action = 'tenant.deleted' and target = 'large'`,
    )
    expect(tombstones!.n).toBe(1)
  }, 240_000)
})
