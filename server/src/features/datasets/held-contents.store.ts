import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

/** Of these contents, those that are a file or preview of a dataset, or a member of an archive on its way to become one. */
export async function heldContents(tx: Tx, digests: string[]): Promise<string[]> {
  const result = await sql<{ digest: string }>`
    select d.digest from unnest(${digests}::text[]) d (digest)
    where exists (select from dataset_files f where f.digest = d.digest)
      or exists (select from dataset_files f where f.preview_digest = d.digest)
      or exists (select from dataset_upload_members m where m.digest = d.digest)`.execute(tx)
  return result.rows.map((row) => row.digest)
}
