import { Readable } from 'node:stream'
import type { SystemCtx, TenantCtx } from '../../platform/context.ts'
import { forbidden, invalid } from '../../platform/errors.ts'
import { type Answer, textAnswer } from '../../platform/http/answer.ts'
import { type PageQuery, pageView } from '../../platform/http/lists.ts'
import { parseTime, sinceTime } from '../../platform/http/windows.ts'
import { read } from '../../platform/transaction.ts'
import { findTenantByCode } from '../tenants/tenants.api.ts'
import { auditView, csvHeader } from './audit.present.ts'
import { type AuditFilter, listActions } from './audit.store.ts'
import { type ExportBatch, type ExportFormat, type ExportPosition, exportAfter } from './audit-export.store.ts'
import { listAudit } from './audit-search.store.ts'

// Rows per look of an export: enough to be fast, few enough that memory stays flat.
const exportBatchRows = 5000

export interface AuditQuery extends PageQuery {
  action?: string
  tenant?: string
  since?: string
  until?: string
  actor?: string
  target?: string
  format?: 'json' | 'csv' | 'ndjson'
}

/** The tenant's own entries; those of the system stay out. @source contract B3.2, B4.6, B4.8 */
export function tenantAudit(ctx: TenantCtx, query: AuditQuery) {
  if (query.tenant && query.tenant.trim().toLowerCase() !== ctx.tenant.code)
    throw forbidden('The entries of another tenant are read there: choose it by X-Tenant.')
  return auditAnswer(ctx, query, { tenantId: ctx.tenant.id }, ctx.tenant.code)
}

export async function systemAudit(ctx: SystemCtx, query: AuditQuery) {
  if (!query.tenant) return auditAnswer(ctx, query, {}, 'all')
  const tenantId = await tenantIdOf(ctx, query.tenant)
  return auditAnswer(ctx, query, { tenantId: tenantId ?? nobody }, query.tenant)
}

/** A tenant that does not exist has no entries: those of a deleted one went with it. */
const nobody = '00000000-0000-0000-0000-000000000000'

const tenantIdOf = (ctx: SystemCtx, code: string): Promise<string | null> =>
  read(ctx, async (tx) => (await findTenantByCode(tx, code))?.id ?? null)

async function auditAnswer(ctx: SystemCtx | TenantCtx, query: AuditQuery, scope: AuditFilter, name: string) {
  const now = ctx.clock.now()
  const filter = { ...scope, ...conditions(query, now) }
  if (query.format === 'csv' || query.format === 'ndjson') return exportAnswer(ctx, filter, query.format, name, now)
  const { items, total } = await read(ctx, (tx) => listAudit(tx, filter, query))
  return pageView(query, { items: items.map(auditView), total })
}

function conditions(query: AuditQuery, now: Date): AuditFilter {
  const { action, actor, target } = query
  const since = query.since === undefined ? undefined : sinceTime(query.since, now)
  const until = query.until === undefined ? undefined : parseTime(query.until)
  if (until === null)
    throw invalid({
      loc: ['query', 'until'],
      msg: 'must be an RFC 3339 time',
      type: 'datetime_parsing',
      input: query.until,
    })
  if (since && until && since > until)
    throw invalid({ loc: ['query', 'since'], msg: 'must not be after until', type: 'value_error', input: query.since })
  return {
    ...(action && { action }),
    ...(actor && { actor }),
    ...(target && { target }),
    ...(since && { since }),
    ...(until && { until }),
  }
}

function exportAnswer(
  ctx: SystemCtx | TenantCtx,
  filter: AuditFilter,
  format: ExportFormat,
  name: string,
  now: Date,
): Answer {
  // What is written while the export runs stays out of it.
  const bounded = { ...filter, until: filter.until && filter.until < now ? filter.until : new Date(now.getTime() + 1) }
  const stamp = now.toISOString().replace(/[-:]/g, '').replace(/\.\d+/, '')
  return textAnswer(Readable.from(exported(ctx, bounded, format), { objectMode: false, highWaterMark: 1 << 20 }), {
    filename: `audit-${name.replace(/[^a-z0-9-]/gi, '_')}-${stamp}.${format}`,
    type: `${format === 'csv' ? 'text/csv' : 'application/x-ndjson'}; charset=utf-8`,
  })
}

/** The next look is under way while the last one's lines are written. */
async function* exported(
  ctx: SystemCtx | TenantCtx,
  filter: AuditFilter,
  format: ExportFormat,
): AsyncGenerator<string> {
  if (format === 'csv') yield csvHeader
  const look = (after: ExportPosition | null) => {
    const batch = read(ctx, (tx) => exportAfter(tx, filter, format, after, exportBatchRows))
    // Whoever goes away in between is waited for by nobody.
    batch.catch(() => undefined)
    return batch
  }
  for (let next: ReturnType<typeof look> | null = look(null); next; ) {
    const { text, last }: ExportBatch = await next
    next = last && look(last)
    if (text) yield text
  }
}

export const tenantActions = (ctx: TenantCtx): Promise<string[]> =>
  read(ctx, (tx) => listActions(tx, { tenantId: ctx.tenant.id }))

/** Actions of everybody, or of one tenant. */
export async function systemActions(ctx: SystemCtx, tenantCode: string | undefined): Promise<string[]> {
  const tenantId = tenantCode ? ((await tenantIdOf(ctx, tenantCode)) ?? nobody) : null
  return read(ctx, (tx) => listActions(tx, tenantId ? { tenantId } : 'all'))
}
