/**
 * 1,000,000 audit entries: pages and filters over HTTP, the CSV export, sealing and verification of the chain.
 * Targets: at least 50,000 rows a second, memory flat (below 256 MiB more than before), first pages within 100 ms.
 * Usage: node bench/audit.ts (about 3 minutes, most of it making and sealing the entries)
 */
import { rm } from 'node:fs/promises'
import { sql } from 'kysely'
import pg from 'pg'
import { sealAudit, verifyAudit } from '../server/src/features/audit/chain.ts'
import { startInstance } from '../server/src/instance.ts'
import { loadConfig } from '../server/src/platform/config.ts'
import type { Services, SystemCtx } from '../server/src/platform/context.ts'
import { transaction } from '../server/src/platform/db/transaction.ts'
import { createLog } from '../server/src/platform/log.ts'
import { dataFolder } from './platform.fixture.ts'

const entries = 1_000_000
const rounds = 15
const password = 'only for this benchmark'
const target = { rowsPerSecond: 50_000, growthBytes: 256 * 2 ** 20, pageMs: 100 }

async function fill({ db }: Services): Promise<void> {
  await transaction(db, 'system', (tx) =>
    sql`
      insert into audit_events (id, at, tenant_id, tenant_code, actor_id, actor_email, action, target, outcome, ip, detail)
      select gen_random_uuid(), now() - n * interval '1 s', t.id, t.code, u.id, u.email,
        (array['dataset.create', 'model.promote', 'auth.login', 'endpoint.start'])[1 + n % 4], 'thing ' || n, 'success',
        '10.0.0.' || n % 250, jsonb_build_object('changed', jsonb_build_array('name', 'size'), 'n', n)
      from generate_series(1, ${entries}::int) n, tenants t, users u`.execute(tx),
  )
}

/** What autovacuum does in time; sealing writes every entry anew. */
async function vacuum({ db }: Services): Promise<void> {
  const owner = new pg.Client({ connectionString: db.ownerUrl })
  await owner.connect()
  await owner.query('vacuum analyze audit_events')
  await owner.end()
}
