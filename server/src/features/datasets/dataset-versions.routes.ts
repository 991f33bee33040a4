import { Type } from 'typebox'
import { tenant } from '../../platform/http/access.ts'
import { listView, pageQuery, pageView } from '../../platform/http/lists.ts'
import { type Operation, operation, raw } from '../../platform/http/operation.ts'
import { bytes, listOf, named, notBlank, nullable, oneOf, sha256Digest, timestamp } from '../../platform/schema.ts'
import { exportDataset } from './dataset-export.service.ts'
import { createVersion, diffDatasets, listVersions } from './dataset-versions.service.ts'
import type { DiffRow, VersionRow } from './dataset-versions.store.ts'
import { manifestView } from './datasets.present.ts'
import { DatasetManifest, datasetParams as params } from './datasets.schema.ts'
import { datasetStates } from './datasets.states.ts'

const text = (description: string) => Type.String({ description })
const count = (description: string) => Type.Integer({ minimum: 0, description })

const VersionCreate = named('DatasetVersionCreate', {
  name: Type.Optional(
    nullable(Type.String({ minLength: 1, maxLength: 200, ...notBlank, description: 'Its name; else the same.' })),
  ),
})

const DatasetVersion = named('DatasetVersion', {
  id: text('Identifier.'),
  name: text('Name.'),
  version: Type.Integer({ minimum: 1, description: 'Number in the line, from 1.' }),
  parent_id: nullable(text('The version it began as.')),
  status: oneOf(datasetStates, { description: 'State.' }),
  digest: nullable(sha256Digest('Digest, once frozen.')),
  file_count: count('Files.'),
  size_bytes: bytes('Sum of its files.'),
  created_at: timestamp('When it was made.'),
  frozen_at: nullable(timestamp('When it was frozen.')),
})

const side = (description: string) =>
  nullable(
    Type.Object(
      {
        digest: sha256Digest('Digest of the content.'),
        size: bytes('Length.'),
        label: nullable(text('Class of the whole image.')),
        split: nullable(text('Part of the dataset.')),
      },
      { description },
    ),
  )

const DatasetDiff = named('DatasetDiff', {
  against: text('The dataset that this one is compared with.'),
  counts: Type.Object({
    added: count('Files that only this dataset has.'),
    removed: count('Files that only the other has.'),
    changed: count('Files of the same path with other content, label or split.'),
    unchanged: count('Files that are the same.'),
  }),
  items: Type.Array(
    Type.Object({
      path: text('Path of the file.'),
      change: oneOf(['added', 'removed', 'changed'], { description: 'What became of it.' }),
      before: side('In the other dataset.'),
      after: side('In this one.'),
    }),
    { description: 'What differs, in path order.' },
  ),
  total: count('Differences on all pages.'),
  page: Type.Integer({ minimum: 1, description: 'This page, from 1.' }),
  page_size: Type.Integer({ minimum: 1, description: 'Most items on a page.' }),
})

/** @source contract PR-33 */
export const datasetVersionRoutes: Operation[] = [
  operation({
    id: 'datasets.createVersion',
    method: 'POST',
    path: '/api/v1/datasets/{dataset_id}/versions',
    summary: 'Begin a new draft with the files of a frozen dataset; no byte is copied.',
    access: tenant('DATASET_WRITE'),
    audit: 'dataset.create_version',
    params,
    body: VersionCreate,
    responses: { 201: DatasetManifest },
    errors: { 409: 'The dataset is not frozen (detail.reason).' },
    handler: async (ctx, { params, body }) =>
      manifestView(await createVersion(ctx, params.dataset_id, body.name ?? null)),
  }),
  operation({
    id: 'datasets.listVersions',
    method: 'GET',
    path: '/api/v1/datasets/{dataset_id}/versions',
    summary: 'Every version of the line that the dataset belongs to, oldest first.',
    access: tenant('VIEW'),
    params,
    responses: { 200: listOf(DatasetVersion) },
    handler: async (ctx, { params }) => listView((await listVersions(ctx, params.dataset_id)).map(versionView)),
  }),
  operation({
    id: 'datasets.diff',
    method: 'GET',
    path: '/api/v1/datasets/{dataset_id}/diff',
    summary: 'Files added, removed and changed since its parent or another dataset.',
    access: tenant('VIEW'),
    params,
    query: Type.Object({
      against: Type.Optional(
        Type.String({ maxLength: 200, description: 'The dataset to compare with; else its parent.' }),
      ),
      ...pageQuery,
    }),
    responses: { 200: DatasetDiff },
    handler: async (ctx, { params, query }) => {
      const { against, counts, items } = await diffDatasets(ctx, params.dataset_id, query.against, query)
      const total = counts.added + counts.removed + counts.changed
      return { against, counts, ...pageView(query, { items: items.map(diffView), total }) }
    },
  }),
  operation({
    id: 'datasets.export',
    method: 'GET',
    path: '/api/v1/datasets/{dataset_id}/export',
    summary: 'All files of a frozen dataset as a ZIP: the same bytes every time.',
    access: tenant('VIEW'),
    params,
    responses: { 200: raw('application/zip', 'The archive, streamed.') },
    errors: { 409: 'The dataset is not frozen (detail.reason).' },
    handler: (ctx, { params }) => exportDataset(ctx, params.dataset_id),
  }),
]

const versionView = (row: VersionRow) => ({
  id: row.id,
  name: row.name,
  version: row.version,
  parent_id: row.parentId,
  status: row.state,
  digest: row.digest,
  file_count: row.fileCount,
  size_bytes: row.sizeBytes,
  created_at: row.createdAt,
  frozen_at: row.frozenAt,
})

const diffView = ({ path, before, after }: DiffRow) => ({
  path,
  change: before === null ? 'added' : after === null ? 'removed' : 'changed',
  before,
  after,
})
