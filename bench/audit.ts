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

async function timed<T>(name: string, work: () => Promise<T>): Promise<{ seconds: number; result: T }> {
  const began = performance.now()
  const result = await work()
  const seconds = (performance.now() - began) / 1000
  console.log(
    `${name.padEnd(44)} ${seconds.toFixed(1)} s, ${Math.round(entries / seconds).toLocaleString('en')} rows/s`,
  )
  return { seconds, result }
}

async function pageMs(get: (path: string) => Promise<Response>, path: string): Promise<number> {
  const times: number[] = []
  for (let round = 0; round < rounds; round++) {
    const began = performance.now()
    const reply = await get(path)
    await reply.arrayBuffer()
    if (reply.status !== 200) throw new Error(`${path}: ${reply.status}`)
    times.push(performance.now() - began)
  }
  const p95 = times.sort((a, b) => a - b)[Math.ceil(0.95 * rounds) - 1]!
  console.log(`${path.padEnd(44)} p95 ${p95.toFixed(0)} ms`)
  return p95
}

/** Counts lines and the most memory beyond what there was before. */
async function drain(reply: Response): Promise<{ lines: number; growthBytes: number }> {
  const before = process.memoryUsage().rss
  let lines = -1
  let most = before
  for await (const piece of reply.body!) {
    for (let at = piece.indexOf(10); at >= 0; at = piece.indexOf(10, at + 1)) lines++
    most = Math.max(most, process.memoryUsage().rss)
  }
  return { lines, growthBytes: most - before }
}

const dataDir = await dataFolder()
const config = loadConfig({
  PLATFORM_MLOPS_PORT: '0',
  PLATFORM_MLOPS_DATA_DIR: dataDir,
  PLATFORM_MLOPS_ADMIN_PASSWORD: password,
  PLATFORM_MLOPS_ROLES: 'web',
})
const instance = await startInstance(config, { log: createLog('error') })
const misses: string[] = []
try {
  const { services, url } = instance
  await timed('entries made', () => fill(services))
  const ctx: SystemCtx = { ...services, kind: 'system', scope: 'system', actor: null, requestId: 'bench', audit: null }
  await timed('chain sealed', () => sealAudit(ctx))
  await vacuum(services)
  const { result } = await timed('chain verified', () => verifyAudit(ctx))
  if (result.faults.length || result.checked < entries) throw new Error(JSON.stringify(result))

  const form = new URLSearchParams({ username: config.adminEmail, password })
  const login = await fetch(`${url}/auth/jwt/login`, { method: 'POST', body: form })
  const { access_token } = (await login.json()) as { access_token: string }
  const get = (path: string) =>
    fetch(url + path, { headers: { authorization: `Bearer ${access_token}`, 'x-tenant': 'default' } })
  const audit = '/api/v1/settings/audit'
  for (const path of [audit, `${audit}?action=model.`, `${audit}?since=24h`, `${audit}/actions`]) {
    if ((await pageMs(get, path)) > target.pageMs) misses.push(path)
  }
  for (const path of [`${audit}?page=40000`, `${audit}?target=thing%2099999`, `${audit}?actor=admin`])
    await pageMs(get, path)
  const csv = await timed('CSV exported', async () => drain(await get(`${audit}?format=csv`)))
  const { lines, growthBytes } = csv.result
  console.log(
    `${String(lines).padEnd(44)} lines, ${(growthBytes / 2 ** 20).toFixed(0)} MiB more memory (client included)`,
  )
  if (lines < entries) misses.push('lines are missing')
  if (entries / csv.seconds < target.rowsPerSecond) misses.push('rows per second')
  if (growthBytes > target.growthBytes) misses.push('memory')
} finally {
  await instance.stop()
  await rm(dataDir, { recursive: true, force: true })
}
console.log(misses.length ? `missed: ${misses.join(', ')}` : 'every target is met')
process.exit(misses.length ? 1 : 0)
