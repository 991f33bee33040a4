import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

/** Notes that nothing refers to these contents, and returns those of which that was noted by `since` already. */
export async function noteUnheld(tx: Tx, digests: string[], now: Date, since: Date): Promise<string[]> {
  if (digests.length === 0) return []
  const rows = await tx
    .insertInto('unheldContents')
    .values(digests.map((digest) => ({ digest, since: now })))
    .onConflict((oc) => oc.column('digest').doUpdateSet({ since: sql`unheld_contents.since` }))
    .returning(['digest', 'since'])
    .execute()
  return rows.filter((row) => row.since <= since).map(({ digest }) => digest)
}

/** Something refers to them again, or they are gone. */
export async function forgetContents(tx: Tx, digests: string[]): Promise<void> {
  if (digests.length > 0) await tx.deleteFrom('unheldContents').where('digest', 'in', digests).execute()
}
