import { tenant } from '../../platform/http/access.ts'
import { pageView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { nullable } from '../../platform/schema.ts'
import { outcomeView, syncConfigView, syncRunView, syncStatusView } from './dataset-syncs.present.ts'
import {
  datasetParams,
  SyncConfig,
  SyncConfigView,
  SyncOutcomePage,
  SyncOutcomeQuery,
  SyncRun,
  SyncRunPage,
  SyncRunQuery,
  SyncStarted,
  SyncStartQuery,
  SyncStatus,
  syncRunParams,
} from './dataset-syncs.schema.ts'
import {
  cancelSync,
  getSync,
  getSyncRun,
  listSyncHistory,
  listSyncOutcomes,
  putSync,
  startSync,
} from './dataset-syncs.service.ts'

const busy = 'A sync is running, the dataset is frozen, or an upload is being assembled (detail.reason).'

/** @source contract PR-28 to PR-31 */
export const datasetSyncRoutes: Operation[] = [
  operation({
    id: 'datasetSyncs.get',
    method: 'GET',
    path: '/api/v1/datasets/{dataset_id}/sync',
    summary: 'How the dataset follows an external source, and how far the last sync is or was.',
    access: tenant('VIEW'),
    params: datasetParams,
    responses: { 200: SyncStatus },
    handler: async (ctx, { params }) => syncStatusView(await getSync(ctx, params.dataset_id)),
  }),
  operation({
    id: 'datasetSyncs.put',
    method: 'PUT',
    path: '/api/v1/datasets/{dataset_id}/sync',
    summary: 'Let the dataset follow an external source, or (source_id null) none any more.',
    access: tenant('DATASET_WRITE'),
    audit: 'dataset.sync.configure',
    params: datasetParams,
    body: SyncConfig,
    responses: { 200: nullable(SyncConfigView) },
    errors: { 409: busy },
    handler: async (ctx, { params, body }) => syncConfigView(await putSync(ctx, params.dataset_id, body)),
  }),
  operation({
    id: 'datasetSyncs.start',
    method: 'POST',
    path: '/api/v1/datasets/{dataset_id}/sync',
    summary: 'Bring the files in step with the source now, or tell what that would do.',
    access: tenant('DATASET_WRITE'),
    audit: 'dataset.sync.start',
    params: datasetParams,
    query: SyncStartQuery,
    responses: { 202: SyncStarted },
    errors: { 409: `${busy} Or it follows no source.` },
    handler: async (ctx, { params, query }) => ({
      run_id: await startSync(ctx, params.dataset_id, query.dry_run),
      dry_run: query.dry_run,
    }),
  }),
  operation({
    id: 'datasetSyncs.cancel',
    method: 'DELETE',
    path: '/api/v1/datasets/{dataset_id}/sync',
    summary: 'End the running sync; what it has done stays.',
    access: tenant('DATASET_WRITE'),
    audit: 'dataset.sync.cancel',
    params: datasetParams,
    responses: { 200: SyncStatus },
    errors: { 409: 'No sync is running.' },
    handler: async (ctx, { params }) => syncStatusView(await cancelSync(ctx, params.dataset_id)),
  }),
  operation({
    id: 'datasetSyncs.listRuns',
    method: 'GET',
    path: '/api/v1/datasets/{dataset_id}/sync/runs',
    summary: 'The last fifty syncs, newest first.',
    access: tenant('VIEW'),
    params: datasetParams,
    query: SyncRunQuery,
    responses: { 200: SyncRunPage },
    handler: async (ctx, { params, query }) => {
      const { items, total } = await listSyncHistory(ctx, params.dataset_id, query)
      return pageView(query, { items: items.map(syncRunView), total })
    },
  }),
  operation({
    id: 'datasetSyncs.getRun',
    method: 'GET',
    path: '/api/v1/datasets/{dataset_id}/sync/runs/{run_id}',
    summary: 'One sync.',
    access: tenant('VIEW'),
    params: syncRunParams,
    responses: { 200: SyncRun },
    handler: async (ctx, { params }) => syncRunView(await getSyncRun(ctx, params.dataset_id, params.run_id)),
  }),
  operation({
    id: 'datasetSyncs.listObjects',
    method: 'GET',
    path: '/api/v1/datasets/{dataset_id}/sync/runs/{run_id}/objects',
    summary: 'What became of the objects, or would; of an ended sync the first thousand of each action.',
    access: tenant('VIEW'),
    params: syncRunParams,
    query: SyncOutcomeQuery,
    responses: { 200: SyncOutcomePage },
    handler: async (ctx, { params, query }) => {
      const { items, total } = await listSyncOutcomes(ctx, params.dataset_id, params.run_id, query)
      return pageView(query, { items: items.map(outcomeView), total })
    },
  }),
]
