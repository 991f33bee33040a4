import type { Tx } from '../../platform/db/transaction.ts'
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

/** Whether the tenant has a toggleable feature; for protocols and background work, which no operation guards. */
export async function hasFeature(tx: Tx, tenantId: string, key: string): Promise<boolean> {
  return isOn(key, await store.findTenantFeatures(tx, tenantId))
}

/** The same where what the tenant has chosen is known already. */
export const isFeatureOn = (key: string, chosen: Record<string, boolean>): boolean => isOn(key, chosen)
