import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

/** Any number; nobody else takes it. */
const cacheLock = 7_203_419

/** Until the transaction ends nobody else marks, looks for or removes a dataset of the cache; freed by a crash too. */
export async function lockCache(tx: Tx): Promise<void> {
  await sql`select pg_advisory_xact_lock(${cacheLock})`.execute(tx)
}
