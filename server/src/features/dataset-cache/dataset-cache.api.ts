import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TenantCtx } from '../../platform/context.ts'
import type { TrainableDataset } from '../datasets/datasets.api.ts'
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
  const cache = cacheFolder(ctx.config.dataDir)
  const folder = join(cache, folderName(dataset.digest))
  // Held before it is looked for: whoever clears the cache checks the marks last.
  await mkdir(usesFolder(folder), { recursive: true, mode: 0o700 })
  await writeFile(join(usesFolder(folder), holder), '')
  if (!(await isFolder(folder))) {
    const unfinished = `${folder}.${holder}.unfinished`
    await layOut(ctx, dataset, unfinished, options)
    await rename(unfinished, folder).catch(async (error: NodeJS.ErrnoException) => {
      await rm(unfinished, { recursive: true, force: true })
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
export async function releaseStagedDataset(dataDir: string, holder: string): Promise<void> {
  const cache = cacheFolder(dataDir)
  const names = await readdir(cache).catch(() => [])
  await Promise.all(
    names.map(async (name) => {
      if (name.endsWith('.uses')) await rm(join(cache, name, holder), { force: true })
      else if (name.endsWith(`.${holder}.unfinished`)) await rm(join(cache, name), { recursive: true, force: true })
    }),
  )
}

/** Everybody who marks a cached dataset as in use. */
export async function listDatasetHolders(dataDir: string): Promise<string[]> {
  const cache = cacheFolder(dataDir)
  const marks = (await readdir(cache).catch(() => [])).filter((name) => name.endsWith('.uses'))
  return [...new Set((await Promise.all(marks.map((name) => readdir(join(cache, name))))).flat())]
}

const staged = (folder: string): StagedDataset => ({ root: join(folder, 'files'), index: join(folder, 'index.jsonl') })
const cacheFolder = (dataDir: string) => join(dataDir, 'cache', 'datasets')
const folderName = (digest: string) => digest.replace(':', '-')
const usesFolder = (folder: string) => `${folder}.uses`
const isFolder = async (path: string) => (await stat(path).catch(() => null))?.isDirectory() ?? false
