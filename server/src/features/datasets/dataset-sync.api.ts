import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict } from '../../platform/errors.ts'
import { read } from '../../platform/transaction.ts'
import { noDataset } from './dataset-access.ts'
import { roomOf } from './dataset-assembly.runs.ts'
import {
  deleteSynced,
  type LinkedDataset,
  listLinked,
  listPresent,
  listSyncedPaths,
  type PresentFile,
  putSynced,
} from './dataset-sync.store.ts'
import { liveUploadsOf } from './dataset-uploads.store.ts'
import { queueValidation } from './dataset-validation.runs.ts'
import {
  bumpRevision,
  type DatasetRow,
  findDataset,
  lockDataset,
  settleDataset,
  updateDataset,
} from './datasets.store.ts'
import { kindOf } from './file-kinds.ts'

/** What a sync may do with a dataset. */

export type { LinkedDataset, PresentFile }

export interface SyncTarget {
  tenantId: string
  datasetId: string
}

/** Whose files a source may change, locked. Throws `not_found`, or `conflict` with `detail.reason`. */
export async function requireSyncable(tx: Tx, { tenantId, datasetId }: SyncTarget): Promise<DatasetRow> {
  const dataset = await requireLocked(tx, { tenantId, datasetId })
  if (dataset.frozenAt)
    throw conflict('The dataset is frozen: make a new version of it.', { detail: { reason: 'dataset_frozen' } })
  if (dataset.syncRunId)
    throw conflict('A sync is running on this dataset already.', { detail: { reason: 'sync_running' } })
  const uploads = await liveUploadsOf(tx, tenantId, datasetId)
  if (uploads.some(({ state }) => state === 'assembling'))
    throw conflict('An upload is being assembled; wait until it is done.', { detail: { reason: 'upload_assembling' } })
  return dataset
}

async function requireLocked(tx: Tx, { tenantId, datasetId }: SyncTarget): Promise<DatasetRow> {
  const dataset = await lockDataset(tx, tenantId, datasetId)
  if (!dataset) throw noDataset()
  return dataset
}

/** The source that a dataset follows, or null. Throws `not_found`. */
export async function findSourceOf(ctx: TenantCtx, datasetId: string): Promise<string | null> {
  const dataset = await read(ctx, (tx) => findDataset(tx, ctx.tenant.id, datasetId))
  if (!dataset) throw noDataset()
  return dataset.externalSourceId
}

export const linkSource = (tx: Tx, { tenantId, datasetId }: SyncTarget, sourceId: string | null): Promise<void> =>
  updateDataset(tx, tenantId, datasetId, { externalSourceId: sourceId })

export const listLinkedDatasets = (
  tx: Tx,
  tenantId: string,
  sourceId: string,
  limit: number,
): Promise<LinkedDataset[]> => listLinked(tx, tenantId, sourceId, limit)

/** From now on nobody else changes the files; the caller has found the dataset syncable in this transaction. */
export async function beginSync(tx: Tx, { tenantId, datasetId }: SyncTarget, runId: string): Promise<void> {
  await updateDataset(tx, tenantId, datasetId, { syncRunId: runId })
  await settleDataset(tx, tenantId, datasetId)
}

/** The sync is over, well or not: what it changed is validated. A dataset that is gone is no error. */
export async function endSync(tx: Tx, { tenantId, datasetId }: SyncTarget, runId: string): Promise<void> {
  const dataset = await lockDataset(tx, tenantId, datasetId)
  if (dataset?.syncRunId !== runId) return
  await updateDataset(tx, tenantId, datasetId, { syncRunId: null })
  if (dataset.revision > dataset.validatedRevision) await queueValidation(tx, tenantId, datasetId)
  await settleDataset(tx, tenantId, datasetId)
}

export async function presentFiles(tx: Tx, target: SyncTarget, paths: string[]): Promise<Map<string, PresentFile>> {
  const files = await listPresent(tx, target.tenantId, target.datasetId, paths)
  return new Map(files.map((file) => [file.path, file]))
}

export const syncedPaths = (tx: Tx, { tenantId, datasetId }: SyncTarget, after: string, limit: number) =>
  listSyncedPaths(tx, tenantId, datasetId, after, limit)

export interface SyncedFile {
  path: string
  digest: string
  size: number
}

/** Adds, replaces and removes files of the running sync, whose id `runId` is. Throws when it no longer is. */
export async function changeSyncedFiles(
  tx: Tx,
  { tenantId, datasetId }: SyncTarget,
  runId: string,
  change: { put?: SyncedFile[]; remove?: string[] },
): Promise<void> {
  const dataset = await requireLocked(tx, { tenantId, datasetId })
  if (dataset.syncRunId !== runId) throw conflict('The sync was ended meanwhile.')
  const { put = [], remove = [] } = change
  if (put.length > 0)
    await putSynced(
      tx,
      tenantId,
      datasetId,
      put.map((file) => ({ ...file, ...kindOf(file.path) })),
    )
  if (remove.length > 0) await deleteSynced(tx, tenantId, datasetId, remove)
  if (put.length + remove.length === 0) return
  await bumpRevision(tx, tenantId, datasetId)
  await settleDataset(tx, tenantId, datasetId)
}

/** Bytes that the dataset may still grow by. */
export const syncRoom = (ctx: TenantCtx, datasetId: string): Promise<number> => roomOf(ctx, datasetId)
