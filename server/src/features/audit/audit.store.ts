import { type SelectQueryBuilder, sql } from 'kysely'
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

function filtered<O>(query: Query<O>, filter: AuditFilter): Query<O> {
  const { tenantId, action, since, until, actor, target } = filter
  let found = query
  if (tenantId) found = found.where('e.tenantId', '=', tenantId)
  // Not LIKE: row-level security keeps that from using an index.
  if (action) found = found.where('e.action', '>=', action).where('e.action', '<', action + last)
  if (since) found = found.where('e.at', '>=', since)
  if (until) found = found.where('e.at', '<', until)
  if (target) found = found.where('e.target', 'ilike', likePattern(target))
  // Found once and before: a test of each entry's actor would be one of every entry.
  if (actor)
    found = found.where(
      sql<boolean>`e.actor_email = any((select audit_actors(${tenantId ?? null}::uuid, ${likePattern(actor)}))::text[])`,
    )
  return found
}

const columns = [
  'e.id',
  'e.at',
  'e.action',
  'e.outcome',
  'e.actorEmail',
  'e.actorId',
  'e.target',
  'e.tenantCode',
  'e.ip',
  'e.requestId',
  'e.detail',
  'e.seq',
] as const

/** The entries that a filter lets through. */
export const auditEntries = (tx: Tx, filter: AuditFilter) =>
  filtered(tx.selectFrom('auditEvents as e') as unknown as Query<unknown>, filter)

export async function listAudit(tx: Tx, filter: AuditFilter, page: { page: number; page_size: number }) {
  const base = auditEntries(tx, filter)
  const items = await base
    .select(columns)
    .orderBy('e.at', 'desc')
    .orderBy('e.id', 'desc')
    .limit(page.page_size)
    .offset((page.page - 1) * page.page_size)
    .execute()
  return { items, total: await countAudit(tx, filter) }
}

export type AuditRow = Awaited<ReturnType<typeof listAudit>>['items'][number]

/** Whoever asks for a tenant or an action alone gets the count without counting: sealed entries are counted as they come. */
async function countAudit(tx: Tx, filter: AuditFilter): Promise<number> {
  const { tenantId, action, ...others } = filter
  const rest = auditEntries(tx, filter).select(sql<number>`count(*)`.as('total'))
  if (Object.keys(others).length > 0) return (await rest.executeTakeFirstOrThrow()).total
  let sealed = tx.selectFrom('auditCounts').select(sql<number>`coalesce(sum(entries), 0)::bigint`.as('total'))
  if (tenantId) sealed = sealed.where('tenantId', '=', tenantId)
  if (action) sealed = sealed.where('action', '>=', action).where('action', '<', action + last)
  // One statement, so that an entry that is sealed meanwhile is not counted twice.
  const { rows } = await sql<{ total: number }>`
    select (${sealed}) + (${rest.where('e.seq', 'is', null)}) as total`.execute(tx)
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
