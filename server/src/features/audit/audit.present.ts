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

export const csvHeader = 'id,at,tenant,actor,actor_id,ip,action,target,outcome,request_id,detail,seq\r\n'
