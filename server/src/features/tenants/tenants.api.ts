import type { Tx } from '../../platform/db/transaction.ts'
import { effectiveRetention, type RetentionKind, retentionDefaults } from './retention.ts'
import { isOn } from './tenant-features.ts'
import * as store from './tenants.store.ts'

export interface TenantSummary {
  id: string
  code: string
  name: string
  isActive: boolean
}

/** By code in any case of letters. */
export async function findTenantByCode(tx: Tx, code: string): Promise<TenantSummary | null> {
  return (await store.findTenantByCode(tx, code)) ?? null
}

/** Makes a tenant with nothing in it yet; returns its id, or that of the one which has the code. */
export async function ensureTenant(tx: Tx, code: string, name: string): Promise<string> {
  return (await store.insertTenant(tx, { code, name })) ?? (await store.findTenantByCode(tx, code))!.id
}

/** Days each tenant keeps a kind of record; 0 means for ever. For retention runs, which work on all tenants. */
export async function listRetention(tx: Tx, kind: RetentionKind): Promise<{ tenantId: string; days: number }[]> {
  const tenants = await store.listTenants(tx)
  return tenants.map(({ id, retention }) => ({ tenantId: id, days: effectiveRetention(retention)[kind] }))
}

/** Whether the tenant has a toggleable feature; for protocols and background work, which no operation guards. */
export async function hasFeature(tx: Tx, tenantId: string, key: string): Promise<boolean> {
  return isOn(key, await store.findTenantFeatures(tx, tenantId))
}

/** The same where what the tenant has chosen is known already. */
export const isFeatureOn = (key: string, chosen: Record<string, boolean>): boolean => isOn(key, chosen)

/** Days for records that belong to no tenant. */
export const defaultRetentionDays = (kind: RetentionKind): number => retentionDefaults[kind]
