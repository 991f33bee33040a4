import type { Ctx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { transaction } from '../../platform/transaction.ts'
import { countTenantRows, dropCountsOf } from './chain.store.ts'
import { type ChainReport, eraseAudit, sealAudit, verifyAudit } from './chain.ts'
import { insertOnce, type SystemEntry } from './entries.store.ts'

export const countTenantAudit = (tx: Tx, tenantId: string): Promise<number> => countTenantRows(tx, tenantId)

/** Removes every entry of a tenant, sealed first so that the chain stays whole. Returns how many. */
export async function eraseTenantAudit(ctx: Ctx, tenantId: string, signal: AbortSignal): Promise<number> {
  await sealAudit(ctx, signal)
  const erased = await eraseAudit(ctx, { tenantId }, 'tenant_deletion', signal)
  await transaction(ctx, (tx) => dropCountsOf(tx, tenantId))
  return erased
}

/** Writes an entry of the system for what a run did; one of that id is written once. `detail` must hold no secret. */
export const recordSystemEntry = (tx: Tx, ctx: Ctx, entry: SystemEntry): Promise<void> => insertOnce(tx, ctx, entry)

/** Whether the chain holds, from its first link to its last. */
export const checkAudit = (ctx: Ctx): Promise<ChainReport> => verifyAudit(ctx)
