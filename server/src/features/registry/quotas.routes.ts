import { Type } from 'typebox'
import { superuser, tenant } from '../../platform/http/access.ts'
import { listView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { usageView } from './quotas.present.ts'
import { QuotaBody, RegistryUsage, RegistryUsageList } from './quotas.schema.ts'
import { listUsage, setQuota, usageOfTenant } from './quotas.service.ts'

/** How full the registry is, and how full it may become. @source ADR 11 */
export const quotaRoutes: Operation[] = [
  operation({
    id: 'registry.getUsage',
    method: 'GET',
    path: '/api/v1/registry/usage',
    summary: 'Bytes the tenant has in the registry, and its quota.',
    access: tenant('VIEW'),
    responses: { 200: RegistryUsage },
    handler: async (ctx) => usageView(await usageOfTenant(ctx)),
  }),
  operation({
    id: 'registry.listUsage',
    method: 'GET',
    path: '/api/v1/system/registry/usage',
    summary: 'Bytes every tenant has in the registry, and its quota.',
    access: superuser,
    responses: { 200: RegistryUsageList },
    handler: async (ctx) => listView((await listUsage(ctx)).map(usageView)),
  }),
  operation({
    id: 'registry.setQuota',
    method: 'PUT',
    path: '/api/v1/system/registry/tenants/{tenant}/quota',
    summary: 'Set the most bytes a tenant may keep in the registry; what is there already stays and can be pulled.',
    access: superuser,
    audit: 'registry.quota.set',
    params: Type.Object({ tenant: Type.String({ minLength: 1, maxLength: 63, description: 'Code of the tenant.' }) }),
    body: QuotaBody,
    responses: { 200: RegistryUsage },
    handler: async (ctx, { params, body }) => usageView(await setQuota(ctx, params.tenant, body.quota_bytes)),
  }),
]
