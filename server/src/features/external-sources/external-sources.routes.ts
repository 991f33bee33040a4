import { tenant } from '../../platform/http/access.ts'
import { requireMatch } from '../../platform/http/etag.ts'
import { pageView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { sourceDetailView, sourceView } from './external-sources.present.ts'
import {
  ExternalSource,
  ExternalSourceCreate,
  ExternalSourceDetail,
  ExternalSourcePage,
  ExternalSourceQuery,
  ExternalSourceUpdate,
  sourceParams as params,
  SourceTest,
} from './external-sources.schema.ts'
import {
  createExternalSource,
  deleteExternalSource,
  getExternalSource,
  listExternalSources,
  testExternalSource,
  updateExternalSource,
} from './external-sources.service.ts'

const changed = 'It was changed since it was read (If-Match).'

/** @source contract PR-22 to PR-27 */
export const externalSourceRoutes: Operation[] = [
  operation({
    id: 'externalSources.list',
    method: 'GET',
    path: '/api/v1/external-sources',
    summary: 'External sources of the tenant by name, without their credentials.',
    access: tenant('VIEW'),
    query: ExternalSourceQuery,
    responses: { 200: ExternalSourcePage },
    handler: async (ctx, { query }) => {
      const { items, total } = await listExternalSources(ctx, query)
      return pageView(query, { items: items.map(sourceView), total })
    },
  }),
  operation({
    id: 'externalSources.create',
    method: 'POST',
    path: '/api/v1/external-sources',
    summary: 'Add a place that datasets can be synced from.',
    access: tenant('SETTINGS'),
    audit: 'external-source.create',
    body: ExternalSourceCreate,
    responses: { 201: ExternalSource },
    errors: { 409: 'The name is taken.' },
    handler: async (ctx, { body }) => sourceView(await createExternalSource(ctx, body)),
  }),
  operation({
    id: 'externalSources.get',
    method: 'GET',
    path: '/api/v1/external-sources/{source_id}',
    summary: 'One external source with the datasets that follow it.',
    access: tenant('VIEW'),
    params,
    responses: { 200: ExternalSourceDetail },
    etag: true,
    handler: async (ctx, { params }) => sourceDetailView(await getExternalSource(ctx, params.source_id)),
  }),
  operation({
    id: 'externalSources.update',
    method: 'PATCH',
    path: '/api/v1/external-sources/{source_id}',
    summary: 'Change its name, where it is, or its credentials.',
    access: tenant('SETTINGS'),
    audit: 'external-source.update',
    params,
    body: ExternalSourceUpdate,
    responses: { 200: ExternalSourceDetail },
    errors: { 409: 'The name is taken, or it was changed at the same time (detail.reason).', 412: changed },
    handler: async (ctx, { params, body, request }) => {
      requireMatch(request, sourceDetailView(await getExternalSource(ctx, params.source_id)))
      return sourceDetailView(await updateExternalSource(ctx, params.source_id, body))
    },
  }),
  operation({
    id: 'externalSources.delete',
    method: 'DELETE',
    path: '/api/v1/external-sources/{source_id}',
    summary: 'Remove it; what datasets got from it stays. Answers what it was.',
    access: tenant('SETTINGS'),
    audit: 'external-source.delete',
    params,
    responses: { 200: ExternalSource },
    errors: { 409: 'Datasets follow it (detail.datasets).', 412: changed },
    handler: async (ctx, { params, request }) => {
      requireMatch(request, sourceDetailView(await getExternalSource(ctx, params.source_id)))
      return sourceView(await deleteExternalSource(ctx, params.source_id))
    },
  }),
  operation({
    id: 'externalSources.test',
    method: 'POST',
    path: '/api/v1/external-sources/{source_id}/test',
    summary: 'Try whether it can be listed.',
    access: tenant('SETTINGS'),
    audit: 'external-source.test',
    params,
    responses: { 200: SourceTest },
    handler: async (ctx, { params, signal }) => {
      const { ok, latencyMs, error } = await testExternalSource(ctx, params.source_id, signal)
      return { ok, latency_ms: latencyMs, error }
    },
  }),
]
