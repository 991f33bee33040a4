import { type SelectQueryBuilder, sql } from 'kysely'
import type { DB } from '../../platform/db/database.generated.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { type ListQuery, likePattern, ordering } from '../../platform/http/lists.ts'
import { userSorts } from './members.schema.ts'

const columns = { created_at: 'u.createdAt', email: 'u.email', name: 'u.fullName' } as const
const accountColumns = [
  'u.id',
  'u.email',
  'u.fullName',
  'u.phone',
  'u.isActive',
  'u.isSuperuser',
  'u.isVerified',
  'u.createdAt',
] as const

type WithUsers<O> = SelectQueryBuilder<DB & { u: DB['users'] }, 'u', O>

function matching<O>(query: WithUsers<O>, q: string | undefined): WithUsers<O> {
  if (!q?.trim()) return query
  const pattern = likePattern(q)
  return query.where(({ or, eb }) =>
    or([
      eb('u.email', 'ilike', pattern),
      eb('u.fullName', 'ilike', pattern),
      eb(sql<string>`u.id::text`, 'ilike', pattern),
    ]),
  )
}

function paged<O>(query: WithUsers<O>, list: ListQuery): WithUsers<O> {
  const { key, direction } = ordering(userSorts, list)
  return query
    .orderBy(columns[key as keyof typeof columns], (order) =>
      (direction === 'asc' ? order.asc() : order.desc()).nullsLast(),
    )
    .orderBy('u.id')
    .limit(list.page_size)
    .offset((list.page - 1) * list.page_size)
}

export async function listMembers(tx: Tx, tenantId: string, list: ListQuery) {
  const base = tx
    .selectFrom('users as u')
    .innerJoin('memberships as m', 'm.userId', 'u.id')
    .where('m.tenantId', '=', tenantId)
  const found = matching(base as never, list.q) as typeof base
  const items = await (paged(found as never, list) as typeof base)
    .select(accountColumns)
    .select(['m.role', 'm.createdAt as memberSince'])
    .execute()
  const { total } = await found.select(sql<number>`count(*)`.as('total')).executeTakeFirstOrThrow()
  return { items, total }
}

export type MemberRow = Awaited<ReturnType<typeof listMembers>>['items'][number]

export async function findMember(tx: Tx, tenantId: string, userId: string): Promise<MemberRow | undefined> {
  return tx
    .selectFrom('users as u')
    .innerJoin('memberships as m', 'm.userId', 'u.id')
    .where('m.tenantId', '=', tenantId)
    .where('u.id', '=', userId)
    .select(accountColumns)
    .select(['m.role', 'm.createdAt as memberSince'])
    .executeTakeFirst()
}

interface HeldRole {
  tenant_code: string
  tenant_name: string
  role: string
}

const heldRoles = sql<HeldRole[]>`(
  select coalesce(json_agg(json_build_object('tenant_code', t.code, 'tenant_name', t.name, 'role', m.role) order by t.code), '[]')
  from memberships m join tenants t on t.id = m.tenant_id where m.user_id = u.id)`

/** Every account with its roles in every tenant; system scope only. */
export async function listAccounts(tx: Tx, list: ListQuery, tenantCode: string | undefined) {
  let base = matching(tx.selectFrom('users as u') as never, list.q) as WithUsers<unknown>
  if (tenantCode) {
    base = base.where(
      sql<boolean>`exists (select from memberships m join tenants t on t.id = m.tenant_id
        where m.user_id = u.id and t.code = ${tenantCode.toLowerCase()})`,
    )
  }
  const items = await paged(base, list).select(accountColumns).select(heldRoles.as('roles')).execute()
  const { total } = await base.select(sql<number>`count(*)`.as('total')).executeTakeFirstOrThrow()
  return { items, total }
}

export type AccountRow = Awaited<ReturnType<typeof listAccounts>>['items'][number]

export async function findAccountWithRoles(tx: Tx, userId: string): Promise<AccountRow | undefined> {
  return tx
    .selectFrom('users as u')
    .where('u.id', '=', userId)
    .select(accountColumns)
    .select(heldRoles.as('roles'))
    .executeTakeFirst()
}

export async function upsertMembership(tx: Tx, tenantId: string, userId: string, role: string): Promise<void> {
  await tx
    .insertInto('memberships')
    .values({ tenantId, userId, role })
    .onConflict((conflict) => conflict.columns(['tenantId', 'userId']).doUpdateSet({ role }))
    .execute()
}

export async function deleteMembership(tx: Tx, tenantId: string, userId: string): Promise<boolean> {
  const result = await tx
    .deleteFrom('memberships')
    .where('tenantId', '=', tenantId)
    .where('userId', '=', userId)
    .executeTakeFirst()
  return result.numDeletedRows > 0
}

/** Active members of the tenant who hold one of the roles. */
export async function listMemberIds(tx: Tx, tenantId: string, roles: string[]): Promise<string[]> {
  const rows = await tx
    .selectFrom('memberships as m')
    .innerJoin('users as u', 'u.id', 'm.userId')
    .select('m.userId')
    .where('m.tenantId', '=', tenantId)
    .where('m.role', 'in', roles)
    .where('u.isActive', '=', true)
    .execute()
  return rows.map((row) => row.userId)
}

/** Of these users those who are active and members of the tenant, or global administrators. */
export async function membersAmong(tx: Tx, tenantId: string, userIds: readonly string[]): Promise<string[]> {
  if (userIds.length === 0) return []
  const rows = await tx
    .selectFrom('users as u')
    .leftJoin('memberships as m', (join) => join.onRef('m.userId', '=', 'u.id').on('m.tenantId', '=', tenantId))
    .select('u.id')
    .where('u.id', 'in', userIds)
    .where('u.isActive', '=', true)
    .where((eb) => eb.or([eb('m.role', 'is not', null), eb('u.isSuperuser', '=', true)]))
    .execute()
  return rows.map((row) => row.id)
}
