import { superuser, tenant } from '../../platform/http/access.ts'
import { listView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { pageOf } from '../../platform/schema.ts'
import { ActionList, ActionsQuery, AuditEvent, SystemAuditQuery, TenantAuditQuery } from './audit.schema.ts'
import { systemActions, systemAudit, tenantActions, tenantAudit } from './audit.service.ts'

/** @source service §4.13, §4.15, contract TN-17, TN-18, SY-31, SY-32 */
export const auditRoutes: Operation[] = [
  operation({
    id: 'audit.list',
    method: 'GET',
    path: '/api/v1/settings/audit',
    summary: "The current tenant's audit log, newest first; as JSON pages, CSV or NDJSON.",
    access: tenant('SETTINGS'),
    query: TenantAuditQuery,
    responses: { 200: pageOf(AuditEvent) },
    handler: (ctx, { query }) => tenantAudit(ctx, query),
  }),
  operation({
    id: 'audit.listActions',
    method: 'GET',
    path: '/api/v1/settings/audit/actions',
    summary: "Distinct actions in the current tenant's audit log.",
    access: tenant('SETTINGS'),
    responses: { 200: ActionList },
    handler: async (ctx) => listView(await tenantActions(ctx)),
  }),
  operation({
    id: 'systemAudit.list',
    method: 'GET',
    path: '/api/v1/system/audit',
    summary: 'The audit log of all tenants and of the system, newest first; as JSON pages, CSV or NDJSON.',
    access: superuser,
    query: SystemAuditQuery,
    responses: { 200: pageOf(AuditEvent) },
    handler: (ctx, { query }) => systemAudit(ctx, query),
  }),
  operation({
    id: 'systemAudit.listActions',
    method: 'GET',
    path: '/api/v1/system/audit/actions',
    summary: 'Distinct actions in the audit log of all tenants, or of one.',
    access: superuser,
    query: ActionsQuery,
    responses: { 200: ActionList },
    handler: async (ctx, { query }) => listView(await systemActions(ctx, query.tenant)),
  }),
]
