import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

export interface Hold {
  repositoryName: string
  digest: string
  /** `image:<id>`, `endpoint:<name>`. */
  holder: string
  reason: string
}

export async function insertHold(tx: Tx, tenantId: string, hold: Hold): Promise<void> {
  await tx
    .insertInto('registryHolds')
    .values({ tenantId, ...hold })
    .onConflict((oc) =>
      oc.columns(['tenantId', 'holder', 'repositoryName', 'digest']).doUpdateSet({ reason: hold.reason }),
    )
    .execute()
}

export async function deleteHolds(tx: Tx, tenantId: string, holder: string): Promise<void> {
  await tx.deleteFrom('registryHolds').where('tenantId', '=', tenantId).where('holder', '=', holder).execute()
}

export async function listHoldsOfRepository(tx: Tx, name: string): Promise<Hold[]> {
  return tx
    .selectFrom('registryHolds')
    .select(['repositoryName', 'digest', 'holder', 'reason'])
    .where('repositoryName', '=', name)
    .orderBy('holder')
    .execute()
}

/** Holds on a manifest or blob, or on any manifest of the repository that needs it. */
export async function listHoldsOn(tx: Tx, repository: { id: string; name: string }, digest: string): Promise<Hold[]> {
  const result = await sql<Hold>`
    with recursive needed_by(digest) as (
      select ${digest}::text
      union
      select r.manifest_digest from registry_references r join needed_by n on r.digest = n.digest
      where r.repository_id = ${repository.id}
    )
    select h.repository_name, h.digest, h.holder, h.reason
    from registry_holds h join needed_by n on h.digest = n.digest
    where h.repository_name = ${repository.name} order by h.holder`.execute(tx)
  return result.rows
}
