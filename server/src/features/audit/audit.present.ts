import type { AuditRow, ExportRow } from './audit.store.ts'

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

export function ndjsonLine({ actor_email, tenant_code, detail, seq, ...entry }: ExportRow): string {
  const text = JSON.stringify({ ...entry, actor: actor_email, tenant: tenant_code, seq })
  return `${text.slice(0, -1)},"detail":${detail}}\n`
}

export const csvHeader = 'id,at,tenant,actor,actor_id,ip,action,target,outcome,request_id,detail,seq\r\n'

export function csvLine(entry: ExportRow): string {
  const actor = `${csvCell(entry.tenant_code)},${csvCell(entry.actor_email)},${entry.actor_id ?? ''},${csvCell(entry.ip)}`
  const act = `${csvCell(entry.action)},${csvCell(entry.target)},${entry.outcome},${csvCell(entry.request_id)}`
  return `${entry.id},${entry.at.toISOString()},${actor},${act},${csvCell(entry.detail)},${entry.seq ?? ''}\r\n`
}

/** A cell that no spreadsheet takes for a formula. @source RFC 4180, contract B4.8 */
function csvCell(text: string | null): string {
  if (text === null || text === 'null') return ''
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
