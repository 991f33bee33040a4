import type { Tx } from '../../platform/db/transaction.ts'
import { findQuota } from './quota.store.ts'
import { sumUsage } from './repositories.store.ts'

/** Bytes the tenant may still store, negative when it has too much already; infinite without a quota, which then costs no counting. */
export async function quotaLeft(tx: Tx, tenantId: string): Promise<number> {
  const quota = await findQuota(tx, tenantId)
  return quota === null ? Number.POSITIVE_INFINITY : quota - (await sumUsage(tx, tenantId))
}
