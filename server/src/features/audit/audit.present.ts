import type { AuditRow } from './audit.store.ts'

export const auditView = (entry: AuditRow) => ({
  id: entry.id,
  at: entry.at,
  action: entry.action,
  outcome: entry.outcome,
  actor: entry.actorEmail,
  actor_id: entry.actorId,
  target: entry.target,
  tenant: entry.tenantCode,
  ip: entry.ip,
  request_id: entry.requestId,
  detail: entry.detail,
  seq: entry.seq,
})

export const ndjsonLine = (entry: AuditRow): string => `${JSON.stringify(auditView(entry))}\n`

const csvColumns = [
  'id',
  'at',
  'tenant',
  'actor',
  'actor_id',
  'ip',
  'action',
  'target',
  'outcome',
  'request_id',
  'detail',
  'seq',
] as const

export const csvHeader = `${csvColumns.join(',')}\r\n`

export function csvLine(entry: AuditRow): string {
  const view = auditView(entry)
  const cells = csvColumns.map((column) => {
    const value = view[column]
    if (value === null || value === undefined) return ''
    if (value instanceof Date) return value.toISOString()
    return csvCell(typeof value === 'object' ? JSON.stringify(value) : String(value))
  })
  return `${cells.join(',')}\r\n`
}

/** A cell that no spreadsheet takes for a formula. @source RFC 4180, contract B4.8 */
function csvCell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
