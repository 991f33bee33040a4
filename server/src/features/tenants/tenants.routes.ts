import type { Feature } from '../../platform/feature.ts'
import { session, superuser } from '../../platform/http/access.ts'
import { requireMatch } from '../../platform/http/etag.ts'
import { listView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { listOf } from '../../platform/schema.ts'
import { toggleCatalogue } from './tenant-features.ts'
import { accessibleTenantView, tenantView } from './tenants.present.ts'
import { AccessibleTenant, FeatureToggle, TenantCreate, TenantOut, TenantPath, TenantUpdate } from './tenants.schema.ts'
import { accessibleTenants, allTenants, changeTenant, createTenant, getTenant } from './tenants.service.ts'

/** @source service §4.13, contract TN-01–TN-05, PR-64 */
export function tenantRoutes(features: () => Feature[]): Operation[] {
  const catalogue = () => toggleCatalogue(features())
  return [
    operation({
      id: 'tenants.listAccessible',
      method: 'GET',
      path: '/api/v1/tenants',
      summary: 'Tenants the caller may use, with the role there.',
      access: session,
      responses: { 200: listOf(AccessibleTenant) },
      handler: async (ctx) => {
        const { isSuperuser } = ctx.actor
        return listView(
          (await accessibleTenants(ctx)).map((row) => accessibleTenantView(row, isSuperuser, catalogue())),
        )
      },
    }),
    operation({
      id: 'tenants.listFeatures',
      method: 'GET',
      path: '/api/v1/settings/features',
      summary: 'Features that can be switched off for a tenant.',
      access: superuser,
      responses: { 200: listOf(FeatureToggle) },
      handler: async () => listView(catalogue()),
    }),
    operation({
      id: 'tenants.list',
      method: 'GET',
      path: '/api/v1/settings/tenants',
      summary: 'Every tenant.',
      access: superuser,
      responses: { 200: listOf(TenantOut) },
      handler: async (ctx) => listView((await allTenants(ctx)).map((row) => tenantView(row, catalogue()))),
    }),
    operation({
      id: 'tenants.create',
      method: 'POST',
      path: '/api/v1/settings/tenants',
      summary: 'Make a tenant.',
      access: superuser,
      audit: 'tenant.create',
      body: TenantCreate,
      responses: { 201: TenantOut },
      errors: { 409: 'Another tenant has this code.' },
      handler: async (ctx, { body }) => tenantView(await createTenant(ctx, body, features(), catalogue()), catalogue()),
    }),
    operation({
      id: 'tenants.get',
      method: 'GET',
      path: '/api/v1/settings/tenants/{tenant_id}',
      summary: 'One tenant.',
      access: superuser,
      params: TenantPath,
      etag: true,
      responses: { 200: TenantOut },
      handler: async (ctx, { params }) => tenantView(await getTenant(ctx, params.tenant_id), catalogue()),
    }),
    operation({
      id: 'tenants.update',
      method: 'PATCH',
      path: '/api/v1/settings/tenants/{tenant_id}',
      summary: 'Change a tenant, or switch it off or on.',
      access: superuser,
      audit: 'tenant.update',
      params: TenantPath,
      body: TenantUpdate,
      responses: { 200: TenantOut },
      errors: { 409: 'It is being deleted (detail.deletion_id).', 412: 'It was changed since it was read (If-Match).' },
      handler: async (ctx, { params, body, request }) => {
        requireMatch(request, tenantView(await getTenant(ctx, params.tenant_id), catalogue()))
        return tenantView(await changeTenant(ctx, params.tenant_id, body, catalogue()), catalogue())
      },
    }),
  ]
}
