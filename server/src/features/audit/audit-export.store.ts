import { type RawBuilder, sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { type AuditFilter, auditEntries } from './audit.store.ts'

export type ExportFormat = 'csv' | 'ndjson'

/** Where an export stands: the last entry that was written. */
export interface ExportPosition {
  /** With every digit that PostgreSQL keeps. */
  at: string
  id: string
}

export interface ExportBatch {
  /** The lines as they go out. */
  text: string
  /** Where to read on; null at the end. */
  last: ExportPosition | null
}

const moment = sql`to_char(e.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/**
 * A quoted cell that no spreadsheet takes for a formula; nothing for null.
 * @source RFC 4180, contract B4.8, OWASP CSV Injection: = + - @ and tab, line feed, carriage return
 */
const cell = (text: RawBuilder<unknown>) => sql`coalesce(
  '"' || case when ascii(${text}) = any('{61,43,45,64,9,10,13}') then '''' else '' end || replace(${text}, '"', '""') || '"',
  '')`

const plain = (name: string) => sql`coalesce(${sql.ref(`e.${name}`)}::text, '')`
const quoted = (name: string) => cell(sql`${sql.ref(`e.${name}`)}`)
const end = sql.lit('\r\n')

const csvLine = sql.join(
  [
    ...[sql`e.id::text`, moment, plain('tenant_code'), quoted('actor_email'), plain('actor_id'), plain('ip')],
    ...[quoted('action'), quoted('target'), plain('outcome'), quoted('request_id')],
    cell(sql`nullif(e.detail::text, 'null')`),
    sql`${plain('seq')} || ${end}`,
  ],
  sql` || ',' || `,
)

const ndjsonLine = sql`json_build_object('id', e.id, 'at', ${moment}, 'action', e.action, 'outcome', e.outcome,
  'actor', e.actor_email, 'actor_id', e.actor_id, 'target', e.target, 'tenant', e.tenant_code, 'ip', e.ip,
  'request_id', e.request_id, 'detail', e.detail, 'seq', e.seq)::text || ${sql.lit('\n')}`

/**
 * The lines behind a position, newest first. PostgreSQL writes them: a million rows as objects would cost this process
 * several times what their text costs.
 */
export async function exportAfter(
  tx: Tx,
  filter: AuditFilter,
  format: ExportFormat,
  after: ExportPosition | null,
  limit: number,
): Promise<ExportBatch> {
  let query = auditEntries(tx, filter)
  if (after) query = query.where(sql<boolean>`(e.at, e.id) < (${after.at}::timestamptz, ${after.id}::uuid)`)
  const entries = query
    .select(['e.at', 'e.id', sql`${format === 'csv' ? csvLine : ndjsonLine}`.as('line')])
    .orderBy('e.at', 'desc')
    .orderBy('e.id', 'desc')
    .limit(limit)
  const { rows } = await sql<{ text: string | null; at: string | null; id: string | null }>`
    with batch as materialized (${entries}), final as (select at::text, id from batch offset ${limit - 1})
    select (select string_agg(line, '') from batch) as text, (select at from final) as at, (select id from final) as id
    `.execute(tx)
  const { text, at, id } = rows[0]!
  return { text: text ?? '', last: at && id ? { at, id } : null }
}
