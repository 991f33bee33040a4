import { Type } from 'typebox'
import type { Feature } from '../../platform/feature.ts'
import { superuser } from '../../platform/http/access.ts'
import { EventStream } from '../../platform/http/event-stream.ts'
import { listView } from '../../platform/http/lists.ts'
import { type Operation, operation, raw } from '../../platform/http/operation.ts'
import type { RunKind } from '../../platform/runs/define-run.ts'
import { listOf, uuid } from '../../platform/schema.ts'
import type { DeletionInput } from './deletion.runs.ts'
import { deletionSummaryView, deletionView } from './deletions.present.ts'
import { getDeletion, listTenantDeletions, previewDeletion, retryDeletion, startDeletion } from './deletions.service.ts'
import {
  DeletionOut,
  DeletionPath,
  DeletionPreview,
  DeletionSummary,
  TenantDeleteRequest,
  TenantPath,
} from './tenants.schema.ts'

/** @source service §4.13, contract TN-06–TN-10, ST-05, B3.4 */
export function deletionRoutes(features: () => Feature[], kind: () => RunKind<DeletionInput>): Operation[] {
  return [
    operation({
      id: 'tenantDeletions.list',
      method: 'GET',
      path: '/api/v1/settings/tenants/deletions',
      summary: 'Deletions of tenants, newest first.',
      access: superuser,
      responses: { 200: listOf(DeletionSummary) },
      handler: async (ctx) => listView((await listTenantDeletions(ctx)).map(deletionSummaryView)),
    }),
    operation({
      id: 'tenantDeletions.get',
      method: 'GET',
      path: '/api/v1/settings/tenants/deletions/{deletion_id}',
      summary: 'One deletion with its steps and its whole log.',
      access: superuser,
      params: DeletionPath,
      responses: { 200: DeletionOut },
      handler: async (ctx, { params }) => deletionView(await getDeletion(ctx, params.deletion_id)),
    }),
    operation({
      id: 'tenantDeletions.preview',
      method: 'GET',
      path: '/api/v1/settings/tenants/{tenant_id}/deletion-preview',
      summary: 'What deleting the tenant would remove.',
      access: superuser,
      params: TenantPath,
      responses: { 200: DeletionPreview },
      handler: async (ctx, { params }) => {
        const { tenant, counts } = await previewDeletion(ctx, params.tenant_id, features())
        const total = Object.values(counts).reduce((sum, count) => sum + count, 0)
        return { tenant_id: tenant.id, tenant_code: tenant.code, tenant_name: tenant.name, counts, total }
      },
    }),
    operation({
      id: 'tenantDeletions.start',
      method: 'POST',
      path: '/api/v1/settings/tenants/{tenant_id}/deletion',
      summary: 'Delete a tenant with everything in it, for good.',
      access: superuser,
      audit: 'tenant.delete',
      params: TenantPath,
      body: TenantDeleteRequest,
      responses: { 202: DeletionOut },
      errors: { 400: 'confirm_code is not its code.', 409: 'Its deletion was asked for before (detail.deletion_id).' },
      handler: async (ctx, { params, body }) =>
        deletionView(await startDeletion(ctx, params.tenant_id, body.confirm_code, features(), kind())),
    }),
    operation({
      id: 'tenantDeletions.retry',
      method: 'POST',
      path: '/api/v1/settings/tenants/deletions/{deletion_id}/retry',
      summary: 'Run the steps of a failed deletion again that are not done.',
      access: superuser,
      audit: 'tenant.retry_deletion',
      params: DeletionPath,
      responses: { 202: DeletionOut },
      errors: { 409: 'It has not failed.' },
      handler: async (ctx, { params }) => deletionView(await retryDeletion(ctx, params.deletion_id)),
    }),
    operation({
      id: 'tenantDeletions.stream',
      method: 'GET',
      path: '/api/v1/stream/tenant-deletions/{id}',
      summary: 'Progress of a deletion as events `deletion` {id, status, step, line}.',
      access: superuser,
      params: Type.Object({ id: uuid('Identifier of the deletion.') }),
      responses: { 200: raw('text/event-stream', 'Server-Sent Events.') },
      handler: async (ctx, { params }) => {
        await getDeletion(ctx, params.id)
        return new EventStream(`tenant-deletions:${params.id.toLowerCase()}`, ['deletion'])
      },
    }),
  ]
}
