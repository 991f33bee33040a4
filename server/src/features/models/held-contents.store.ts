import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

/** Of these contents, those that are files of model versions. */
export async function heldContents(tx: Tx, digests: string[]): Promise<string[]> {
  const result = await sql<{ digest: string }>`
    select d.digest from unnest(${digests}::text[]) d (digest)
    where exists (select from model_version_files f where f.digest = d.digest)`.execute(tx)
  return result.rows.map((row) => row.digest)
}
