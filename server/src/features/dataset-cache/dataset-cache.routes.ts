import { Type } from 'typebox'
import { superuser } from '../../platform/http/access.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { bytes, named, nullable, sha256Digest, timestamp } from '../../platform/schema.ts'
import type { CacheEntry } from './cache-folder.ts'
import { clearCache, clearDataset, getCacheStatus, removeLeftover } from './dataset-cache.service.ts'

const Entry = named('CachedDataset', {
  digest: sha256Digest('Digest of the content that is laid out.'),
  datasets: Type.Array(
    named('CachedDatasetName', {
      dataset_id: Type.String({ description: 'Identifier of the dataset.' }),
      tenant: Type.String({ description: 'Code of its tenant.' }),
      name: Type.String({ description: 'Its name when it was last trained on.' }),
    }),
    { description: 'Datasets of this content, in any tenant.' },
  ),
  file_count: Type.Integer({ minimum: 0, description: 'Files laid out.' }),
  size_bytes: bytes('All files together; they share their space with the dataset as long as that exists.'),
  in_use_by: Type.Array(Type.String(), { description: 'Experiments that use it now.' }),
  staged_at: timestamp('When it was laid out.'),
  last_used_at: timestamp('When a training last began or ended on it; after a week without one it is removed.'),
})

const Volume = named('CacheVolume', {
  name: Type.String({ description: 'Its name.' }),
  since: timestamp('When it was left.'),
  in_use_by: nullable(Type.String({ description: 'Experiment that still writes there.' })),
})

const Status = named('DatasetCache', {
  items: Type.Array(Entry),
  total: Type.Integer({ minimum: 0, description: 'Datasets laid out.' }),
  size_bytes: bytes('All of them together.'),
  volumes: Type.Array(Volume, { description: 'What interruptions left over.' }),
})

const Cleared = named('DatasetCacheCleared', {
  removed: Type.Array(sha256Digest('Digest of what is gone.')),
  kept: Type.Array(sha256Digest('Digest of what trainings use.')),
})

const VolumeRemoved = named('CacheVolumeRemoved', { name: Type.String({ description: 'Name of the volume.' }) })

const digests = (entries: CacheEntry[]) => entries.map(({ digest }) => digest)
const inUse = 'A training uses it (detail.reason in_use, detail.in_use_by).'

/** @source service §4.3 TR-20 to TR-23 */
export const datasetCacheRoutes: Operation[] = [
  operation({
    id: 'datasetCache.getStatus',
    method: 'GET',
    path: '/api/v1/training/cache',
    summary: 'Datasets that are laid out for trainings on this machine, and what is left over.',
    access: superuser,
    responses: { 200: Status },
    handler: async (ctx) => {
      const { entries, volumes } = await getCacheStatus(ctx)
      const items = entries.map(entryView)
      const sizeBytes = items.reduce((sum, { size_bytes }) => sum + size_bytes, 0)
      return {
        items,
        total: items.length,
        size_bytes: sizeBytes,
        volumes: volumes.map(({ name, since, usedBy }) => ({ name, since: since.toISOString(), in_use_by: usedBy })),
      }
    },
  }),
  operation({
    id: 'datasetCache.clear',
    method: 'DELETE',
    path: '/api/v1/training/cache',
    summary: 'Remove every laid-out dataset that no training uses.',
    access: superuser,
    audit: 'cache.clear',
    responses: { 200: Cleared },
    handler: async (ctx) => clearedView(await clearCache(ctx)),
  }),
  operation({
    id: 'datasetCache.removeVolume',
    method: 'DELETE',
    path: '/api/v1/training/cache/volumes/{name}',
    summary: 'Remove what an interruption left over.',
    access: superuser,
    audit: 'cache.remove_volume',
    responses: { 200: VolumeRemoved },
    errors: { 409: inUse },
    handler: async (ctx, { params }) => {
      await removeLeftover(ctx, params.name!)
      return { name: params.name }
    },
  }),
  operation({
    id: 'datasetCache.clearDataset',
    method: 'DELETE',
    path: '/api/v1/training/cache/{dataset_id}',
    summary: 'Remove one laid-out dataset.',
    access: superuser,
    audit: 'cache.clear_dataset',
    responses: { 200: Cleared },
    errors: { 409: inUse },
    handler: async (ctx, { params }) => clearedView(await clearDataset(ctx, params.dataset_id!)),
  }),
]

const clearedView = ({ removed, kept }: { removed: CacheEntry[]; kept: CacheEntry[] }) => ({
  removed: digests(removed),
  kept: digests(kept),
})

const entryView = ({ digest, datasets, holders, stagedAt, lastUsedAt }: CacheEntry) => ({
  digest,
  datasets: datasets.map(({ datasetId, tenant, name }) => ({ dataset_id: datasetId, tenant, name })),
  file_count: datasets[0]?.fileCount ?? 0,
  size_bytes: datasets[0]?.sizeBytes ?? 0,
  in_use_by: holders,
  staged_at: stagedAt.toISOString(),
  last_used_at: lastUsedAt.toISOString(),
})
