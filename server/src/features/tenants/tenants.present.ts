import { permissionsOf, roles } from '../../platform/http/permissions.ts'
import { effectiveRetention } from './retention.ts'
import { effectiveFeatures, type FeatureToggle } from './tenant-features.ts'
import type { AccessibleTenantRow, TenantRow } from './tenants.store.ts'

export const tenantView = (tenant: TenantRow, catalogue: FeatureToggle[]) => ({
  id: tenant.id,
  code: tenant.code,
  name: tenant.name,
  is_active: tenant.isActive,
  kpi_targets: tenant.kpiTargets,
  retention: effectiveRetention(tenant.retention),
  features: effectiveFeatures(catalogue, tenant.features),
  shared_defaults: tenant.sharedDefaults,
  members: tenant.members,
  deletion_id: tenant.deletionId,
  created_at: tenant.createdAt,
  updated_at: tenant.updatedAt,
})

export function accessibleTenantView(tenant: AccessibleTenantRow, isSuperuser: boolean, catalogue: FeatureToggle[]) {
  const role = isSuperuser ? 'ADMIN' : (tenant.role ?? '')
  return {
    id: tenant.id,
    code: tenant.code,
    name: tenant.name,
    is_active: tenant.isActive,
    role,
    permissions: isSuperuser ? roles.ADMIN.permissions : [...permissionsOf(role)],
    features: effectiveFeatures(catalogue, tenant.features),
  }
}
