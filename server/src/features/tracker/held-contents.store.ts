import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

/** Of these contents, those that are artifacts of runs or logged models. */
export async function heldContents(tx: Tx, digests: string[]): Promise<string[]> {
  const result = await sql<{ digest: string }>`
    select d.digest from unnest(${digests}::text[]) d (digest)
    where exists (select from tracker_artifacts a where a.digest = d.digest)`.execute(tx)
  return result.rows.map((row) => row.digest)
}
