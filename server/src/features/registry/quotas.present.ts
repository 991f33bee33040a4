import type { TenantUsage } from './quota.store.ts'

export const usageView = ({ tenant, usedBytes, quotaBytes }: TenantUsage) => ({
  tenant,
  used_bytes: usedBytes,
  quota_bytes: quotaBytes,
})
