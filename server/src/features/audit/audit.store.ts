import { type SelectQueryBuilder, sql } from 'kysely'
import type { DB } from '../../platform/db/database.generated.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { likePattern } from '../../platform/http/lists.ts'

export interface AuditFilter {
  /** Only this tenant's entries. */
  tenantId?: string
  tenantCode?: string
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
  const { tenantId, tenantCode, action, since, until, actor, target } = filter
  let found = query
  if (tenantId) found = found.where('e.tenantId', '=', tenantId)
  if (tenantCode) found = found.where('e.tenantCode', '=', tenantCode)
  // Not LIKE: row-level security keeps that from using an index.
  if (action) found = found.where('e.action', '>=', action).where('e.action', '<', action + last)
  if (since) found = found.where('e.at', '>=', since)
  if (until) found = found.where('e.at', '<', until)
  if (target) found = found.where('e.target', 'ilike', likePattern(target))
  if (actor) {
    const pattern = likePattern(actor)
    found = found.where(
      sql<boolean>`(e.actor_email ilike ${pattern}
        or e.actor_id in (select u.id from users u where u.full_name ilike ${pattern}))`,
    )
  }
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

const newestFirst = <O>(query: Query<O>): Query<O> => query.orderBy('e.at', 'desc').orderBy('e.id', 'desc')

export async function listAudit(tx: Tx, filter: AuditFilter, page: { page: number; page_size: number }) {
  const base = filtered(tx.selectFrom('auditEvents as e') as unknown as Query<unknown>, filter)
  const items = await newestFirst(base)
    .select(columns)
    .limit(page.page_size)
    .offset((page.page - 1) * page.page_size)
    .execute()
  const { total } = await base.select(sql<number>`count(*)`.as('total')).executeTakeFirstOrThrow()
  return { items, total }
}

export type AuditRow = Awaited<ReturnType<typeof listAudit>>['items'][number]

/** An entry for an export, as the driver gives it: renaming a million rows' columns would cost more than their text. */
export interface ExportRow {
  id: string
  at: Date
  action: string
  outcome: string
  actor_email: string | null
  actor_id: string | null
  target: string | null
  tenant_code: string | null
  ip: string | null
  request_id: string | null
  /** JSON text. */
  detail: string | null
  seq: number | null
}

/** The entries behind a position, newest first. */
export async function listAuditAfter(
  tx: Tx,
  filter: AuditFilter,
  after: { at: Date; id: string } | null,
  limit: number,
): Promise<ExportRow[]> {
  let query = filtered(tx.selectFrom('auditEvents as e') as unknown as Query<unknown>, filter)
  if (after) query = query.where(sql<boolean>`(e.at, e.id) < (${after.at}, ${after.id})`)
  const plain = columns.filter((column) => column !== 'e.detail')
  const compiled = newestFirst(query)
    .select(plain)
    .select(sql<string | null>`e.detail::text`.as('detail'))
    .limit(limit)
    .compile()
  const { rows } = await tx.withoutPlugins().executeQuery(compiled)
  return rows as unknown as ExportRow[]
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
