import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import type { Ctx, TenantCtx } from '../../platform/context.ts'
import { read } from '../../platform/transaction.ts'
import type { TrainableDataset } from '../datasets/datasets.api.ts'
import {
  entryFolder,
  holdersIn,
  isFolder,
  markUse,
  removeFolder,
  unfinishedFolder,
  unmarkUses,
} from './cache-folder.ts'
import { tidyCache } from './dataset-cache.service.ts'
import { lockCache } from './dataset-cache.store.ts'
import { layOut, type StagingReport } from './staging.ts'

/** A dataset as files on this machine. Never write there: the files are the blob store's own. */
export interface StagedDataset {
  /** Folder of the files. */
  root: string
  /** `index.jsonl`: a JSON object per trainable file with path, label and split. */
  index: string
}

export interface StagingOptions {
  signal: AbortSignal
  report: StagingReport
}

/**
 * Files and index of a frozen dataset in the cache of this machine, made once for its digest and shared by everybody
 * who trains on it. `holder` (an id) marks it as in use until `releaseStagedDataset`.
 */
export async function stageDataset(
  ctx: TenantCtx,
  dataset: TrainableDataset,
  holder: string,
  options: StagingOptions,
): Promise<StagedDataset> {
  const { tenant } = ctx
  const folder = entryFolder(ctx.config.dataDir, dataset.digest)
  const { id: datasetId, name, fileCount, sizeBytes } = dataset
  const record = { tenantId: tenant.id, tenant: tenant.code, datasetId, name, fileCount, sizeBytes }
  const isThere = await read(ctx, async (tx) => {
    await lockCache(tx)
    await markUse(folder, holder, record)
    return isFolder(folder)
  })
  if (!isThere) {
    const unfinished = unfinishedFolder(folder, holder)
    await layOut(ctx, dataset, unfinished, options)
    await rename(unfinished, folder).catch(async (error: NodeJS.ErrnoException) => {
      await removeFolder(unfinished)
      // Somebody else was faster; it is the same content.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
  }
  return staged(folder)
}

/** The same, for one user alone: `folder` is removed with whatever owns it. */
export async function stageDatasetInto(
  ctx: TenantCtx,
  dataset: TrainableDataset,
  folder: string,
  options: StagingOptions,
): Promise<StagedDataset> {
  await layOut(ctx, dataset, folder, options)
  return staged(folder)
}

/** Takes the mark of `holder` off every cached dataset. */
export const releaseStagedDataset = (dataDir: string, holder: string): Promise<void> => unmarkUses(dataDir, holder)

/** Everybody who marks a cached dataset as in use. */
export const listDatasetHolders = (dataDir: string): Promise<string[]> => holdersIn(dataDir)

/** Removes what nobody needs any more; gives the number of datasets. */
export const tidyDatasetCache = async (ctx: Ctx): Promise<number> => (await tidyCache(ctx)).removed.length

const staged = (folder: string): StagedDataset => ({ root: join(folder, 'files'), index: join(folder, 'index.jsonl') })
