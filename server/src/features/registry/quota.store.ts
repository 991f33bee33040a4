import type { Tx } from '../../platform/db/transaction.ts'

/** Most bytes the tenant may keep, or null for no limit. */
export async function findQuota(tx: Tx, tenantId: string): Promise<number | null> {
  const row = await tx
    .selectFrom('registryQuotas')
    .select('quotaBytes')
    .where('tenantId', '=', tenantId)
    .executeTakeFirst()
  return row?.quotaBytes ?? null
}

export async function replaceQuota(tx: Tx, tenantId: string, quotaBytes: number | null): Promise<void> {
  await tx.deleteFrom('registryQuotas').where('tenantId', '=', tenantId).execute()
  if (quotaBytes !== null) await tx.insertInto('registryQuotas').values({ tenantId, quotaBytes }).execute()
}
