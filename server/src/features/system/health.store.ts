import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { workerLock } from '../../platform/runs/run-store.ts'

export async function databaseFigures(tx: Tx) {
  const { rows } = await sql<{ version: string; sizeBytes: number; connections: number; connectionsMax: number }>`
    select current_setting('server_version') as version, pg_database_size(current_database()) as size_bytes,
      (select count(*) from pg_stat_activity where datname = current_database()) as connections,
      current_setting('max_connections')::int as connections_max`.execute(tx)
  return rows[0]!
}

export async function runFigures(tx: Tx) {
  const { rows } = await sql<{
    workers: number
    running: number
    waiting: number
    oldestSeconds: number
    failed: number
  }>`
    select
      (select count(*) from pg_locks where locktype = 'advisory' and granted and classid = ${sql.lit(workerLock)}
        and database = (select oid from pg_database where datname = current_database())) as workers,
      count(*) filter (where state = 'running') as running,
      count(*) filter (where state = 'pending' and run_after <= now()) as waiting,
      coalesce(extract(epoch from now() - min(run_after) filter (where state = 'pending' and run_after <= now())), 0)::int as oldest_seconds,
      (select count(*) from runs where state = 'failed' and ended_at > now() - interval '1 day') as failed
    from runs where state in ('pending', 'running')`.execute(tx)
  return rows[0]!
}

export async function countAdministrators(tx: Tx): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) from users where is_superuser and is_active`.execute(tx)
  return rows[0]!.count
}

/** When the last backup that is noted was taken. */
export async function findLastBackup(tx: Tx): Promise<Date | null> {
  const { rows } = await sql<{ at: Date | null }>`select max(taken_at) as at from backups`.execute(tx)
  return rows[0]!.at
}

/** The seconds since the last entry of the audit was sealed while others wait, or 0. */
export async function unsealedSeconds(tx: Tx): Promise<number> {
  const { rows } = await sql<{ seconds: number }>`
    select coalesce(extract(epoch from now() - min(at)), 0)::int as seconds from audit_events where seq is null`.execute(
    tx,
  )
  return rows[0]!.seconds
}
