import { sql } from 'kysely'
import type pg from 'pg'
import type { Tx } from './transaction.ts'

// Any constant that nobody else uses.
const advisoryLock = 7_000_002

/** Keeps blobs from being deleted while this session lives; the backup copies them after the rows that refer to them. */
export async function holdBlobs(client: pg.Client): Promise<void> {
  await client.query('select pg_advisory_lock_shared($1)', [advisoryLock])
}

/**
 * Whether this transaction may take away what the last references to blobs are: false while a backup runs. A sweep asks
 * first, and deletes the files only after its transaction is committed.
 */
export async function mayDeleteBlobs(tx: Tx): Promise<boolean> {
  const { rows } = await sql<{ free: boolean }>`select pg_try_advisory_xact_lock(${advisoryLock}) as free`.execute(tx)
  return rows[0]?.free === true
}
