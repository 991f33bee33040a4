import { audited } from '../../platform/audit.ts'
import type { SystemCtx, TenantCtx } from '../../platform/context.ts'
import { notFound } from '../../platform/errors.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { findTenantByCode } from '../tenants/tenants.api.ts'
import { findQuota, listTenantUsage, replaceQuota, type TenantUsage } from './quota.store.ts'
import { sumUsage } from './repositories.store.ts'

export const usageOfTenant = (ctx: TenantCtx): Promise<TenantUsage> =>
  read(ctx, async (tx) => ({
    tenant: ctx.tenant.code,
    usedBytes: await sumUsage(tx, ctx.tenant.id),
    quotaBytes: await findQuota(tx, ctx.tenant.id),
  }))

export const listUsage = (ctx: SystemCtx): Promise<TenantUsage[]> => read(ctx, listTenantUsage)

/** Takes effect on the next request of a push, also of one that is under way. Throws `not_found` for an unknown tenant. */
export async function setQuota(ctx: SystemCtx, code: string, quotaBytes: number | null): Promise<TenantUsage> {
  audited(ctx, code, { quota_bytes: quotaBytes })
  return transaction(ctx, async (tx) => {
    const tenant = await findTenantByCode(tx, code)
    if (!tenant) throw notFound('There is no such tenant.')
    await replaceQuota(tx, tenant.id, quotaBytes)
    return { tenant: tenant.code, usedBytes: await sumUsage(tx, tenant.id), quotaBytes }
  })
}
