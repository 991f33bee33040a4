import { sql } from 'kysely'
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

/** Keeps others that count against the tenant's quota waiting until the transaction ends. */
export async function lockQuota(tx: Tx, tenantId: string): Promise<void> {
  await sql`select registry_lock_quota(${tenantId})`.execute(tx)
}

export interface TenantUsage {
  /** Code. */
  tenant: string
  /** Each blob and manifest once, and uploads that are under way. */
  usedBytes: number
  /** Null without a limit. */
  quotaBytes: number | null
}

/** By code; needs a transaction of the system. */
export async function listTenantUsage(tx: Tx): Promise<TenantUsage[]> {
  return tx
    .selectFrom('tenants as t')
    .leftJoin('registryQuotas as q', 'q.tenantId', 't.id')
    .select(['t.code as tenant', 'q.quotaBytes', sql<number>`registry_usage(t.id)`.as('usedBytes')])
    .orderBy('t.code')
    .execute()
}
