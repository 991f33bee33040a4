import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

/**
 * Of these contents, those that a training made which has not registered its model: files that were taken over may be
 * all that is left of it. From its registration on they are files of the model version and artifacts of the run.
 */
export async function heldContents(tx: Tx, digests: string[]): Promise<string[]> {
  const result = await sql<{ digest: string }>`
    select distinct 'sha256:' || (a ->> 'sha256') as digest
    from experiments e cross join jsonb_array_elements(e.artifacts) a
    where e.registered_version is null and 'sha256:' || (a ->> 'sha256') = any(${digests}::text[])`.execute(tx)
  return result.rows.map((row) => row.digest)
}
