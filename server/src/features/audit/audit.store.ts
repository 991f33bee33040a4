import { type SelectQueryBuilder, type SqlBool, sql } from 'kysely'
import type { DB } from '../../platform/db/database.generated.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { likePattern } from '../../platform/http/lists.ts'

export interface AuditFilter {
  /** Only this tenant's entries. */
  tenantId?: string
  /** Prefix. */
  action?: string
  since?: Date
  until?: Date
  actor?: string
  target?: string
}

type Query<O> = SelectQueryBuilder<DB & { e: DB['auditEvents'] }, 'e', O>

// The last character there is: everything that begins with a prefix lies between it and the prefix with this behind.
const last = '\u{10ffff}'

/** Whom a part of an address or of a name means. */
const actorMatches = (pattern: string) =>
  sql<SqlBool>`(e.actor_email ilike ${pattern} or e.actor_email in (select u.email from users u where u.full_name ilike ${pattern}))`

function filtered<O>(query: Query<O>, filter: AuditFilter): Query<O> {
  const { tenantId, action, since, until, actor, target } = filter
  let found = query
  if (tenantId) found = found.where('e.tenantId', '=', tenantId)
  // Not LIKE: row-level security keeps that from using an index.
  if (action) found = found.where('e.action', '>=', action).where('e.action', '<', action + last)
  if (since) found = found.where('e.at', '>=', since)
  if (until) found = found.where('e.at', '<', until)
  if (target) found = found.where('e.target', 'ilike', likePattern(target))
  if (actor) found = found.where(actorMatches(likePattern(actor)))
  return found
}

export const auditColumns = [
  ...(['e.id', 'e.at', 'e.action', 'e.outcome', 'e.actorEmail', 'e.actorId', 'e.target', 'e.tenantCode'] as const),
  ...(['e.ip', 'e.requestId', 'e.detail', 'e.seq'] as const),
] as const

/** The entries that a filter lets through. */
export const auditEntries = (tx: Tx, filter: AuditFilter) =>
  filtered(tx.selectFrom('auditEvents as e') as unknown as Query<unknown>, filter)

/** Entries in the order of the list, read until the page is full. */
export const listInOrder = (tx: Tx, filter: AuditFilter, limit: number, offset: number) =>
  auditEntries(tx, filter)
    .select(auditColumns)
    .orderBy('e.at', 'desc')
    .orderBy('e.id', 'desc')
    .limit(limit)
    .offset(offset)
    .execute()

export type AuditRow = Awaited<ReturnType<typeof listInOrder>>[number]

export async function countEntries(tx: Tx, filter: AuditFilter): Promise<number> {
  const total = sql<number>`count(*)`.as('total')
  return (await auditEntries(tx, filter).select(total).executeTakeFirstOrThrow()).total
}

/** Entries of a tenant, of an action, or all, without counting: sealed entries are counted as they come. */
export async function countByAction(tx: Tx, filter: Pick<AuditFilter, 'tenantId' | 'action'>): Promise<number> {
  const { tenantId, action } = filter
  let sealed = tx
    .selectFrom('auditCounts')
    .select(sql<number>`coalesce(sum(entries), 0)::bigint`.as('total'))
    .where('facet', '=', 'action')
  if (tenantId) sealed = sealed.where('tenantId', '=', tenantId)
  if (action) sealed = sealed.where('value', '>=', action).where('value', '<', action + last)
  const waiting = auditEntries(tx, filter).select(sql<number>`count(*)`.as('total')).where('e.seq', 'is', null)
  // One statement, so that an entry that is sealed meanwhile is not counted twice.
  const { rows } = await sql<{ total: number }>`select (${sealed}) + (${waiting}) as total`.execute(tx)
  return rows[0]!.total
}

/** Distinct actions in order, each found by one step into the index however many entries it has. */
export async function listActions(tx: Tx, scope: { tenantId: string } | 'all'): Promise<string[]> {
  const within = scope === 'all' ? sql`true` : sql`tenant_id = ${scope.tenantId}`
  const { rows } = await sql<{ action: string }>`
    with recursive found as (
      (select action from audit_events where ${within} order by action limit 1)
      union all
      select (select e.action from audit_events e where ${within} and e.action > f.action order by e.action limit 1)
      from found f where f.action is not null)
    select action from found where action is not null`.execute(tx)
  return rows.map((row) => row.action)
}
