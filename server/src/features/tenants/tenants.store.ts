import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'

const members = sql<number>`(select count(*) from memberships m where m.tenant_id = t.id)`
const deletionId = sql<string | null>`(select d.id from tenant_deletions d where d.tenant_id = t.id)`

export async function listTenants(tx: Tx) {
  return tx
    .selectFrom('tenants as t')
    .selectAll('t')
    .select([members.as('members'), deletionId.as('deletionId')])
    .orderBy('t.code')
    .execute()
}

export type TenantRow = Awaited<ReturnType<typeof listTenants>>[number]

export async function findTenant(tx: Tx, id: string): Promise<TenantRow | undefined> {
  return tx
    .selectFrom('tenants as t')
    .selectAll('t')
    .select([members.as('members'), deletionId.as('deletionId')])
    .where('t.id', '=', id)
    .executeTakeFirst()
}

export async function findTenantByCode(tx: Tx, code: string) {
  return tx
    .selectFrom('tenants')
    .select(['id', 'code', 'name', 'isActive'])
    .where('code', '=', code.trim().toLowerCase())
    .executeTakeFirst()
}

/** What the tenant has chosen of the toggleable features. */
export async function findTenantFeatures(tx: Tx, id: string): Promise<unknown> {
  const row = await tx.selectFrom('tenants').select('features').where('id', '=', id).executeTakeFirst()
  return row?.features ?? {}
}

/** Active tenants of a member with the role held; every tenant for a global administrator. */
export async function listAccessibleTenants(tx: Tx, userId: string, everything: boolean) {
  let query = tx
    .selectFrom('tenants as t')
    .leftJoin('memberships as m', (join) => join.onRef('m.tenantId', '=', 't.id').on('m.userId', '=', userId))
    .select(['t.id', 't.code', 't.name', 't.isActive', 't.features', 'm.role'])
    .orderBy('t.code')
  if (!everything) query = query.where('m.role', 'is not', null).where('t.isActive', '=', true)
  return query.execute()
}

export type AccessibleTenantRow = Awaited<ReturnType<typeof listAccessibleTenants>>[number]

export interface TenantValues {
  name?: string
  kpiTargets?: unknown
  retention?: unknown
  features?: unknown
  sharedDefaults?: unknown
  isActive?: boolean
}

const columns = ({ kpiTargets, retention, features, sharedDefaults, ...plain }: TenantValues) => ({
  ...plain,
  ...(kpiTargets === undefined ? {} : { kpiTargets: JSON.stringify(kpiTargets) }),
  ...(retention === undefined ? {} : { retention: JSON.stringify(retention) }),
  ...(features === undefined ? {} : { features: JSON.stringify(features) }),
  ...(sharedDefaults === undefined ? {} : { sharedDefaults: JSON.stringify(sharedDefaults) }),
})

/** Null when the code is taken. */
export async function insertTenant(
  tx: Tx,
  tenant: TenantValues & { code: string; name: string },
): Promise<string | null> {
  const { code, name, ...values } = tenant
  const id = newId()
  const row = await tx
    .insertInto('tenants')
    .values({ id, code, name, ...columns(values) })
    .onConflict((conflict) => conflict.column('code').doNothing())
    .returning('id')
    .executeTakeFirst()
  return row?.id ?? null
}

export async function updateTenant(tx: Tx, id: string, values: TenantValues): Promise<void> {
  await tx
    .updateTable('tenants')
    .set({ ...columns(values), updatedAt: sql`now()` })
    .where('id', '=', id)
    .execute()
}

/** Locks the tenants that no feature has filled yet, so that each is filled once. */
export async function lockUnpreparedTenants(tx: Tx): Promise<string[]> {
  const rows = await tx
    .selectFrom('tenants')
    .select('id')
    .where('preparedAt', 'is', null)
    .forUpdate()
    .skipLocked()
    .execute()
  return rows.map((row) => row.id)
}

export async function markPrepared(tx: Tx, id: string): Promise<void> {
  await tx.updateTable('tenants').set({ preparedAt: sql`now()` }).where('id', '=', id).execute()
}
