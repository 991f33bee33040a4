/**
 * 1,000,000 audit entries: pages and filters over HTTP, the exports, sealing and verification of the chain.
 * Targets: at least 50,000 rows a second, memory flat (below 128 MiB more than before), first pages within 100 ms.
 * Usage: node bench/audit.ts [entries] (about 3 minutes, most of it making and sealing the entries)
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import pg from 'pg'
import { sealAudit, verifyAudit } from '../server/src/features/audit/chain.ts'
import { systemClock } from '../server/src/platform/clock.ts'
import type { SystemCtx } from '../server/src/platform/context.ts'
import {
  type Database,
  databaseFolderName,
  embeddedName,
  embeddedUrls,
  openDatabase,
} from '../server/src/platform/db/database.ts'
import { findEmbeddedPostgres } from '../server/src/platform/db/embedded-postgres.ts'
import { transaction } from '../server/src/platform/db/transaction.ts'
import { createLog } from '../server/src/platform/log.ts'
import { type BenchPlatform, startPlatform } from './platform.fixture.ts'

const entries = Number(process.argv[2] ?? 1_000_000)
const rounds = 20
const target = { rowsPerSecond: 50_000, growthBytes: 128 * 2 ** 20, pageMs: 100 }
// Linux counts a process's time in hundredths of a second.
const ticksPerSecond = 100

const platform = await startPlatform({ PLATFORM_MLOPS_ROLES: 'web' })
const misses: string[] = []

/** The database of the running platform, beside it. */
async function databaseOf({ dataDir }: BenchPlatform): Promise<Database> {
  const running = await findEmbeddedPostgres(join(dataDir, databaseFolderName))
  if (!running) throw new Error('the platform has no database')
  return openDatabase({ url: embeddedUrls(running, embeddedName).ownerUrl, folder: '', log: createLog('error') })
}

const fill = (db: Database) =>
  transaction(db, 'system', (tx) =>
    sql`
      insert into audit_events (id, at, tenant_id, tenant_code, actor_id, actor_email, action, target, outcome, ip, detail)
      select gen_random_uuid(), now() - n * interval '1 s', t.id, t.code, u.id, u.email,
        (array['dataset.create', 'model.promote', 'auth.login', 'endpoint.start'])[1 + n % 4], 'thing ' || n, 'success',
        '10.0.0.' || n % 250, jsonb_build_object('changed', jsonb_build_array('name', 'size'), 'n', n)
      from generate_series(1, ${entries}::int) n, tenants t, users u`.execute(tx),
  )

/** What autovacuum does in time; sealing writes every entry anew. */
async function vacuum({ ownerUrl }: Database): Promise<void> {
  const owner = new pg.Client({ connectionString: ownerUrl })
  await owner.connect()
  await owner.query('vacuum analyze audit_events')
  await owner.end()
}

async function timed<T>(name: string, work: () => Promise<T>): Promise<{ rowsPerSecond: number; result: T }> {
  const began = performance.now()
  const result = await work()
  const seconds = (performance.now() - began) / 1000
  const rowsPerSecond = Math.round(entries / seconds)
  console.log(`${name.padEnd(48)} ${seconds.toFixed(1)} s, ${rowsPerSecond.toLocaleString('en')} rows/s`)
  return { rowsPerSecond, result }
}

async function pageMs(path: string): Promise<number> {
  const times: number[] = []
  for (let round = 0; round < rounds; round++) {
    const began = performance.now()
    await platform.call('GET', path)
    times.push(performance.now() - began)
  }
  const p95 = times.sort((a, b) => a - b)[Math.ceil(0.95 * rounds) - 1]!
  console.log(`${path.padEnd(48)} p95 ${p95.toFixed(0)} ms`)
  return p95
}

async function cpuSeconds(): Promise<number> {
  const fields = (await readFile(`/proc/${platform.pid}/stat`, 'utf8')).split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
}

/** Counts the lines of an export, the server's time for each, and the most memory beyond what there was before. */
async function drain(path: string) {
  const [memoryBefore, cpuBefore] = [await platform.residentMemory(), await cpuSeconds()]
  let [lines, most, pieces] = [0, 0, 0]
  for await (const piece of await platform.stream(path)) {
    for (let at = piece.indexOf(10); at >= 0; at = piece.indexOf(10, at + 1)) lines++
    if (pieces++ % 500 === 0) most = Math.max(most, await platform.residentMemory())
  }
  return { lines, growthBytes: most - memoryBefore, cpuMicroseconds: ((await cpuSeconds()) - cpuBefore) * 1e6 }
}

async function exported(format: string, path: string): Promise<void> {
  const { rowsPerSecond, result } = await timed(`${format} exported`, () => drain(path))
  const { lines, growthBytes, cpuMicroseconds } = result
  console.log(
    `  ${(cpuMicroseconds / lines).toFixed(1)} µs of the server's CPU a row, ${(growthBytes / 2 ** 20).toFixed(0)} MiB more memory`,
  )
  if (lines < entries) misses.push(`${format}: lines`)
  if (rowsPerSecond < target.rowsPerSecond) misses.push(`${format}: rows per second`)
  if (growthBytes > target.growthBytes) misses.push(`${format}: memory`)
}

try {
  const db = await databaseOf(platform)
  const services = { db, clock: systemClock, log: createLog('error') } as unknown as SystemCtx
  const ctx: SystemCtx = { ...services, kind: 'system', scope: 'system', actor: null, requestId: 'bench', audit: null }
  await timed('entries made', () => fill(db))
  await timed('chain sealed', () => sealAudit(ctx))
  await vacuum(db)
  const { result } = await timed('chain verified', () => verifyAudit(ctx))
  if (result.faults.length || result.checked < entries) throw new Error(JSON.stringify(result))
  await db.close()

  const audit = '/api/v1/settings/audit'
  const searches = ['target=thing%2099999', 'target=99999', 'target=thing%209999&action=model.', 'actor=admin']
  for (const path of [
    ...[audit, `${audit}?action=model.`, `${audit}?since=24h`, `${audit}/actions`, '/api/v1/system/audit'],
    ...searches.flatMap((query) => [`${audit}?${query}`, `/api/v1/system/audit?${query}`]),
  ])
    if ((await pageMs(path)) > target.pageMs) misses.push(path)
  // These read every entry or every target, and say so.
  for (const path of [`${audit}?page=${entries / 25}`, `${audit}?target=thing`, `${audit}?actor=admin&target=thing`])
    await pageMs(path)
  await exported('CSV', `${audit}?format=csv`)
  await exported('NDJSON', `${audit}?format=ndjson`)
} finally {
  await platform.stop()
}
console.log(misses.length ? `missed: ${misses.join(', ')}` : 'every target is met')
process.exit(misses.length ? 1 : 0)
