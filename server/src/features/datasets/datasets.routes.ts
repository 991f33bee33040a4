import { tenant } from '../../platform/http/access.ts'
import { requireMatch } from '../../platform/http/etag.ts'
import { listView, pageView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { sampleDataset } from './dataset-sample.service.ts'
import { revalidate } from './dataset-validation.service.ts'
import { manifestView, summaryView, usageView } from './datasets.present.ts'
import {
  DatasetCreate,
  DatasetManifest,
  DatasetPage,
  DatasetQuery,
  DatasetSample,
  DatasetUpdate,
  DatasetUsage,
  DraftCreate,
  ForceQuery,
  datasetParams as params,
  SampleQuery,
} from './datasets.schema.ts'
import {
  createDataset,
  createDraft,
  deleteDataset,
  freezeDataset,
  getDataset,
  listDatasets,
  listDatasetUsage,
  updateDataset,
} from './datasets.service.ts'

const changed = 'It was changed since it was read (If-Match).'

/** @source service §4.2, contract DS-01 … DS-08, DS-19, DS-20, PR-32 */
const revalidation = {
  method: 'POST',
  access: tenant('DATASET_WRITE'),
  params,
  responses: { 200: DatasetManifest },
  errors: { 409: 'It is frozen, or a sync is running (detail.reason).' },
} as const

export const datasetRoutes: Operation[] = [
  operation({
    id: 'datasets.list',
    method: 'GET',
    path: '/api/v1/datasets',
    summary: 'Datasets of the tenant.',
    access: tenant('VIEW'),
    query: DatasetQuery,
    responses: { 200: DatasetPage },
    handler: async (ctx, { query }) => {
      const { items, total } = await listDatasets(ctx, query)
      return pageView(query, { items: items.map(summaryView), total })
    },
  }),
  operation({
    id: 'datasets.create',
    method: 'POST',
    path: '/api/v1/datasets',
    summary: 'Register a dataset under an id of your own; its data may be uploaded then, or lie elsewhere.',
    access: tenant('DATASET_WRITE'),
    audit: 'dataset.create',
    body: DatasetCreate,
    responses: { 201: DatasetManifest },
    errors: { 409: 'The id is taken.' },
    handler: async (ctx, { body }) =>
      manifestView(
        await createDataset(ctx, {
          id: body.id,
          name: body.name,
          source: body.source,
          schemaVersion: body.schema_version,
          recordCount: body.record_count ?? 0,
          sizeBytes: body.size_bytes ?? 0,
          format: body.format,
          keyFields: body.key_fields,
          storageUri: body.storage_uri,
          validationStatus: body.validation_status,
          validation: body.validation,
          variables: body.variables,
        }),
      ),
  }),
  operation({
    id: 'datasets.createDraft',
    method: 'POST',
    path: '/api/v1/datasets/drafts',
    summary: 'Begin a dataset that files are uploaded to; its id is made from the name.',
    access: tenant('DATASET_WRITE'),
    audit: 'dataset.create_draft',
    body: DraftCreate,
    responses: { 201: DatasetManifest },
    handler: async (ctx, { body }) => manifestView(await createDraft(ctx, body)),
  }),
  operation({
    id: 'datasets.get',
    method: 'GET',
    path: '/api/v1/datasets/{dataset_id}',
    summary: 'The whole manifest: classes, statistics, validation report.',
    access: tenant('VIEW'),
    params,
    etag: true,
    responses: { 200: DatasetManifest },
    handler: async (ctx, { params }) => manifestView(await getDataset(ctx, params.dataset_id)),
  }),
  operation({
    id: 'datasets.update',
    method: 'PATCH',
    path: '/api/v1/datasets/{dataset_id}',
    summary: 'Change name, source or modality.',
    access: tenant('DATASET_WRITE'),
    audit: 'dataset.update',
    params,
    body: DatasetUpdate,
    responses: { 200: DatasetManifest },
    errors: { 412: changed },
    handler: async (ctx, { params, body, request }) => {
      requireMatch(request, manifestView(await getDataset(ctx, params.dataset_id)))
      return manifestView(await updateDataset(ctx, params.dataset_id, body))
    },
  }),
  operation({
    id: 'datasets.delete',
    method: 'DELETE',
    path: '/api/v1/datasets/{dataset_id}',
    summary: 'Delete the dataset with all its files.',
    access: tenant('DATASET_WRITE'),
    audit: 'dataset.delete',
    params,
    query: ForceQuery,
    responses: { 204: null },
    errors: { 409: 'A training uses it, or used it and force is not set (detail.reason).', 412: changed },
    handler: async (ctx, { params, query, request }) => {
      requireMatch(request, manifestView(await getDataset(ctx, params.dataset_id)))
      await deleteDataset(ctx, params.dataset_id, query.force ?? false)
    },
  }),
  operation({
    id: 'datasets.freeze',
    method: 'POST',
    path: '/api/v1/datasets/{dataset_id}:freeze',
    summary: 'Make it unchangeable, with a digest over files and labels; only then can it be trained on.',
    access: tenant('DATASET_WRITE'),
    audit: 'dataset.freeze',
    params,
    responses: { 200: DatasetManifest },
    errors: {
      409: 'detail.reason: empty, invalid, not_validated, validating, syncing, open_upload or already_frozen.',
    },
    handler: async (ctx, { params }) => manifestView(await freezeDataset(ctx, params.dataset_id)),
  }),
  operation({
    id: 'datasets.sample',
    method: 'GET',
    path: '/api/v1/datasets/{dataset_id}/sample',
    summary: 'Some rows: of the table, or the first images with their labels.',
    access: tenant('VIEW'),
    params,
    query: SampleQuery,
    responses: { 200: DatasetSample },
    handler: (ctx, { params, query }) => sampleDataset(ctx, params.dataset_id, query.limit ?? 20),
  }),
  operation({
    id: 'datasets.usage',
    method: 'GET',
    path: '/api/v1/datasets/{dataset_id}/usage',
    summary: 'Trainings that used it, newest first.',
    access: tenant('VIEW'),
    params,
    responses: { 200: DatasetUsage },
    handler: async (ctx, { params }) => listView((await listDatasetUsage(ctx, params.dataset_id)).map(usageView)),
  }),
  operation({
    ...revalidation,
    id: 'datasets.revalidate',
    path: '/api/v1/datasets/{dataset_id}/revalidate',
    summary: 'Read and validate every file again; a long validation goes on behind the answer.',
    audit: 'dataset.revalidate',
    handler: async (ctx, { params, signal }) => manifestView(await revalidate(ctx, params.dataset_id, true, signal)),
  }),
  operation({
    ...revalidation,
    id: 'datasets.revalidateAnnotations',
    path: '/api/v1/datasets/{dataset_id}/revalidate-annotations',
    summary: 'Read the annotations again and match them with the images.',
    audit: 'dataset.revalidate_annotations',
    handler: async (ctx, { params, signal }) => manifestView(await revalidate(ctx, params.dataset_id, false, signal)),
  }),
]
