import { audited } from '../../platform/audit.ts'
import type { Services, SystemCtx, UserCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict, invalid, notFound } from '../../platform/errors.ts'
import type { Feature } from '../../platform/feature.ts'
import { read, transaction } from '../../platform/transaction.ts'
import type { FeatureToggle } from './tenant-features.ts'
import {
  findTenant,
  insertTenant,
  listAccessibleTenants,
  listTenants,
  lockUnpreparedTenants,
  markPrepared,
  type TenantRow,
  type TenantValues,
  updateTenant,
} from './tenants.store.ts'

/** Codes that mean something else in image names and addresses. @source contract B3.1 */
const reservedCodes = new Set(['shared', 'system', 'library'])

export const accessibleTenants = (ctx: UserCtx) =>
  read(ctx, (tx) => listAccessibleTenants(tx, ctx.actor.userId, ctx.actor.isSuperuser))

export const allTenants = (ctx: SystemCtx): Promise<TenantRow[]> => read(ctx, listTenants)

export const getTenant = (ctx: SystemCtx, id: string): Promise<TenantRow> => read(ctx, (tx) => loadTenant(tx, id))

/** Throws `not_found`. */
export async function loadTenant(tx: Tx, id: string): Promise<TenantRow> {
  const tenant = await findTenant(tx, id)
  if (!tenant) throw notFound('There is no such tenant.')
  return tenant
}

export interface TenantDraft {
  code: string
  name: string
  kpi_targets?: unknown
  retention?: unknown
  features?: Record<string, boolean>
  shared_defaults?: unknown[]
}

/** Makes a tenant and lets every feature fill it. Throws `conflict` when the code is taken. @source contract B3.1 */
export async function createTenant(
  ctx: SystemCtx,
  draft: TenantDraft,
  features: Feature[],
  catalogue: FeatureToggle[],
): Promise<TenantRow> {
  const code = draft.code.toLowerCase()
  if (reservedCodes.has(code))
    throw invalid({ loc: ['body', 'code'], msg: 'is reserved', type: 'value_error', input: draft.code })
  refuseUnknownFeatures(draft.features, catalogue)
  audited(ctx, code, { name: draft.name })
  return transaction(ctx, async (tx) => {
    const id = await insertTenant(tx, { ...valuesOf(draft), code, name: draft.name })
    if (!id) throw conflict('Another tenant has this code.')
    await fillTenant(tx, ctx, id, features)
    return loadTenant(tx, id)
  })
}

export interface TenantPatch {
  name?: string | null
  kpi_targets?: unknown
  retention?: unknown
  is_active?: boolean | null
  features?: Record<string, boolean> | null
}

/** Only the keys that are present change; null is as good as absent. Throws `conflict` for one that is being deleted. */
export async function changeTenant(
  ctx: SystemCtx,
  id: string,
  patch: TenantPatch,
  catalogue: FeatureToggle[],
): Promise<TenantRow> {
  refuseUnknownFeatures(patch.features, catalogue)
  const values = valuesOf(patch)
  return transaction(ctx, async (tx) => {
    const tenant = await loadTenant(tx, id)
    audited(ctx, tenant.code, { changed: values })
    if (values.isActive && tenant.deletionId)
      throw conflict('This tenant is being deleted.', { detail: { deletion_id: tenant.deletionId } })
    await updateTenant(tx, id, values)
    return loadTenant(tx, id)
  })
}

function valuesOf(patch: Partial<TenantDraft> | TenantPatch): TenantValues {
  const { name, kpi_targets, retention, features } = patch
  const shared = (patch as Partial<TenantDraft>).shared_defaults
  const active = (patch as TenantPatch).is_active
  return {
    ...(name == null ? {} : { name: name.trim() }),
    ...(kpi_targets == null ? {} : { kpiTargets: kpi_targets }),
    ...(retention == null ? {} : { retention }),
    ...(features == null ? {} : { features }),
    ...(shared == null ? {} : { sharedDefaults: shared }),
    ...(active == null ? {} : { isActive: active }),
  }
}

function refuseUnknownFeatures(chosen: Record<string, boolean> | null | undefined, catalogue: FeatureToggle[]): void {
  const known = new Set(catalogue.map(({ key }) => key))
  const unknown = Object.keys(chosen ?? {}).filter((key) => !known.has(key))
  if (unknown.length === 0) return
  const msg = `is no toggleable feature; use ${[...known].join(', ')}`
  throw invalid(unknown.map((key) => ({ loc: ['body', 'features', key], msg, type: 'value_error' })))
}

async function fillTenant(tx: Tx, ctx: SystemCtx, id: string, features: Feature[]): Promise<void> {
  for (const feature of features) await feature.tenantCreated?.(tx, ctx, id)
  await markPrepared(tx, id)
}

/** Fills the tenants that were made without it, such as the first one. Each is filled once, whoever starts. */
export async function fillUnprepared(services: Services, features: Feature[]): Promise<void> {
  const ctx: SystemCtx = { ...services, kind: 'system', scope: 'system', actor: null, requestId: 'start', audit: null }
  await transaction(ctx, async (tx) => {
    for (const id of await lockUnpreparedTenants(tx)) await fillTenant(tx, ctx, id, features)
  })
}
