import { type SqlBool, sql } from 'kysely'
import { pageAndTotal } from '../../platform/db/pages.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'

export interface NewNotification {
  tenantId: string | null
  userId: string
  groupName: string
  title: string
  body: string | null
  link: string | null
  dedupeKey: string | null
  inApp: boolean
  emailState: 'none' | 'pending'
}

/** Inserts what was not told before; returns what is new. */
export async function insertNotifications(tx: Tx, rows: NewNotification[]): Promise<{ id: string; userId: string }[]> {
  if (rows.length === 0) return []
  return tx
    .insertInto('notifications')
    .values(rows.map((row) => ({ id: newId(), ...row })))
    .onConflict((conflict) => conflict.columns(['userId', 'dedupeKey']).where('dedupeKey', 'is not', null).doNothing())
    .returning(['id', 'userId'])
    .execute()
}

/** What each of them has chosen; who has chosen nothing is absent. */
export async function findPreferences(tx: Tx, userIds: string[]): Promise<Map<string, Preferences>> {
  if (userIds.length === 0) return new Map()
  const rows = await tx
    .selectFrom('notificationPreferences')
    .select(['userId', 'prefs'])
    .where('userId', 'in', userIds)
    .execute()
  return new Map(rows.map((row) => [row.userId, row.prefs as unknown as Preferences]))
}

export interface Channels {
  in_app: boolean
  email: boolean
}

/** Group → where it is told. */
export type Preferences = Record<string, Channels>

export async function replacePreferences(tx: Tx, userId: string, prefs: Preferences): Promise<void> {
  const text = JSON.stringify(prefs)
  await tx
    .insertInto('notificationPreferences')
    .values({ userId, prefs: text })
    .onConflict((conflict) => conflict.column('userId').doUpdateSet({ prefs: text, updatedAt: sql`now()` }))
    .execute()
}

/** Whether the person can still get at it: who has left a tenant, or whose tenant is switched off, can not. */
export const withinReach = sql<SqlBool>`(n.tenant_id is null or exists (
  select from users u cross join tenants t left join memberships m on m.tenant_id = t.id and m.user_id = u.id
  where t.id = n.tenant_id and u.id = n.user_id and (u.is_superuser or (t.is_active and m.role is not null))))`

/** Unread ones of each person as far as this transaction sees: in one tenant, or everywhere. */
export async function countUnreadOf(tx: Tx, userIds: string[]): Promise<Map<string, number>> {
  const rows = await tx
    .selectFrom('notifications as n')
    .select(['n.userId', sql<number>`count(*)`.as('unread')])
    .where('n.userId', 'in', userIds)
    .where('n.inApp', '=', true)
    .where('n.readAt', 'is', null)
    .where(withinReach)
    .groupBy('n.userId')
    .execute()
  return new Map(rows.map((row) => [row.userId, row.unread]))
}

export interface ListFilter {
  userId: string
  tenantId: string
  unread?: boolean
  limit: number
  offset: number
}

/** A person's notifications of one tenant and of the installation, newest first. */
export async function listNotifications(tx: Tx, filter: ListFilter) {
  let base = tx
    .selectFrom('notifications')
    .where('userId', '=', filter.userId)
    .where((eb) => eb.or([eb('tenantId', '=', filter.tenantId), eb('tenantId', 'is', null)]))
    .where('inApp', '=', true)
  if (filter.unread !== undefined) base = base.where('readAt', filter.unread ? 'is' : 'is not', null)
  const items = base
    .select(['id', 'groupName', 'title', 'body', 'link', 'tenantId', 'createdAt', 'readAt'])
    .orderBy('createdAt', 'desc')
    .orderBy('id', 'desc')
    .limit(filter.limit)
    .offset(filter.offset)
  return pageAndTotal(base, items)
}

export type NotificationRow = Awaited<ReturnType<typeof listNotifications>>['items'][number]

/** Unread ones of a person per tenant, those of the installation under null. */
export async function countUnreadPerTenant(tx: Tx, userId: string) {
  return tx
    .selectFrom('notifications as n')
    .leftJoin('tenants as t', 't.id', 'n.tenantId')
    .select(['t.code as tenantCode', 't.name as tenantName', sql<number>`count(*)`.as('unread')])
    .where('n.userId', '=', userId)
    .where('n.inApp', '=', true)
    .where('n.readAt', 'is', null)
    .where(withinReach)
    .groupBy(['t.code', 't.name'])
    .orderBy('t.code')
    .execute()
}

export async function markAllRead(tx: Tx, userId: string, tenantId: string): Promise<number> {
  const result = await tx
    .updateTable('notifications')
    .set({ readAt: sql`now()` })
    .where('userId', '=', userId)
    .where((eb) => eb.or([eb('tenantId', '=', tenantId), eb('tenantId', 'is', null)]))
    .where('inApp', '=', true)
    .where('readAt', 'is', null)
    .executeTakeFirst()
  return Number(result.numUpdatedRows)
}

/** Keeps the first time it was read. Undefined when the person has none of that id there. */
export async function markRead(tx: Tx, id: string, userId: string, tenantId: string) {
  return tx
    .updateTable('notifications')
    .set({ readAt: sql`coalesce(read_at, now())` })
    .where('id', '=', id)
    .where('userId', '=', userId)
    .where((eb) => eb.or([eb('tenantId', '=', tenantId), eb('tenantId', 'is', null)]))
    .where('inApp', '=', true)
    .returning(['id', 'groupName', 'title', 'body', 'link', 'tenantId', 'createdAt', 'readAt'])
    .executeTakeFirst()
}

/** Removes at most so many that are older than their tenant keeps them. */
export async function deleteOld(tx: Tx, tenantId: string | null, before: Date, limit: number): Promise<number> {
  const old = tx
    .selectFrom('notifications')
    .select('id')
    .where('createdAt', '<', before)
    .where('tenantId', tenantId === null ? 'is' : '=', tenantId)
    .limit(limit)
  const result = await tx.deleteFrom('notifications').where('id', 'in', old).executeTakeFirst()
  return Number(result.numDeletedRows)
}
