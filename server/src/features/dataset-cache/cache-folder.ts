import { createHash, randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/*
 * What lies in the cache of this machine, below `cache/datasets`:
 *
 *   sha256-<digest>              files and index of a dataset, made once for its digest; there whole or not at all
 *   sha256-<digest>.uses/        an empty file per training that uses it
 *   sha256-<digest>.datasets/    a record per dataset of that digest; its time is that of the last use
 *   ….unfinished, ….removed     volumes left over where a staging or a removal was cut off
 */

/** The dataset that a staging was made for; a digest may have several. */
export interface StagedFor {
  tenantId: string
  tenant: string
  datasetId: string
  name: string
  fileCount: number
  sizeBytes: number
}

/** A dataset that is laid out. */
export interface CacheEntry {
  digest: string
  datasets: StagedFor[]
  /** Who uses it now. */
  holders: string[]
  stagedAt: Date
  lastUsedAt: Date
}

const entryName = /^sha256-[0-9a-f]{64}$/
const leftoverName = /^sha256-[0-9a-f]{64}\.[A-Za-z0-9-]{1,64}\.(unfinished|removed)$/

export const cacheFolder = (dataDir: string): string => join(dataDir, 'cache', 'datasets')
export const entryFolder = (dataDir: string, digest: string): string =>
  join(cacheFolder(dataDir), digest.replace(':', '-'))
export const unfinishedFolder = (entry: string, holder: string): string => `${entry}.${holder}.unfinished`
const usesFolder = (entry: string) => `${entry}.uses`
const datasetsFolder = (entry: string) => `${entry}.datasets`

const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch(() => [])
export const isFolder = async (path: string): Promise<boolean> =>
  (await stat(path).catch(() => null))?.isDirectory() ?? false

/** Says that `holder` uses the dataset. The caller holds the lock of the cache. */
export async function markUse(entry: string, holder: string, dataset: StagedFor): Promise<void> {
  for (const folder of [usesFolder(entry), datasetsFolder(entry)]) await mkdir(folder, { recursive: true, mode: 0o700 })
  const key = createHash('sha256').update(`${dataset.tenantId}/${dataset.datasetId}`).digest('hex')
  await writeFile(join(datasetsFolder(entry), `${key}.json`), JSON.stringify(dataset))
  await writeFile(join(usesFolder(entry), holder), '')
}

/** Takes the mark of `holder` off every dataset, and notes that this was its last use. */
export async function unmarkUses(dataDir: string, holder: string): Promise<void> {
  for (const name of await namesIn(cacheFolder(dataDir))) {
    const path = join(cacheFolder(dataDir), name)
    if (name.endsWith(`.${holder}.unfinished`)) await rm(path, { recursive: true, force: true })
    if (!name.endsWith('.uses') || !(await namesIn(path)).includes(holder)) continue
    await rm(join(path, holder), { force: true })
    const records = datasetsFolder(path.slice(0, -'.uses'.length))
    const now = new Date()
    for (const record of await namesIn(records)) await utimes(join(records, record), now, now).catch(() => undefined)
  }
}

/** Everybody who uses a dataset of the cache. */
export async function holdersIn(dataDir: string): Promise<string[]> {
  const cache = cacheFolder(dataDir)
  const marks = (await namesIn(cache)).filter((name) => name.endsWith('.uses'))
  return [...new Set((await Promise.all(marks.map((name) => namesIn(join(cache, name))))).flat())]
}

/** Every dataset that is laid out, by digest. */
export async function listEntries(dataDir: string): Promise<CacheEntry[]> {
  const names = (await namesIn(cacheFolder(dataDir))).filter((name) => entryName.test(name)).toSorted()
  const entries = await Promise.all(names.map((name) => readEntry(join(cacheFolder(dataDir), name), name)))
  return entries.filter((entry) => entry !== null)
}

async function readEntry(folder: string, name: string): Promise<CacheEntry | null> {
  const info = await stat(folder).catch(() => null)
  if (!info) return null
  const records = await namesIn(datasetsFolder(folder))
  const datasets = await Promise.all(records.map((record) => readRecord(join(datasetsFolder(folder), record))))
  const known = datasets.filter((record) => record !== null)
  return {
    digest: name.replace('-', ':'),
    datasets: known.map(({ dataset }) => dataset),
    holders: await namesIn(usesFolder(folder)),
    stagedAt: info.mtime,
    lastUsedAt: new Date(Math.max(info.mtimeMs, ...known.map(({ usedMs }) => usedMs))),
  }
}

async function readRecord(path: string): Promise<{ dataset: StagedFor; usedMs: number } | null> {
  try {
    const { mtimeMs } = await stat(path)
    return { dataset: JSON.parse(await readFile(path, 'utf8')) as StagedFor, usedMs: mtimeMs }
  } catch {
    // It was removed meanwhile, or a crash tore it: then it says nothing.
    return null
  }
}

/**
 * Takes a dataset that nobody uses out of the cache; what is left of it is returned, to be removed at leisure. Null
 * when somebody uses it, or it is gone. The caller holds the lock of the cache.
 */
export async function takeOut(dataDir: string, digest: string): Promise<string | null> {
  const folder = entryFolder(dataDir, digest)
  if ((await namesIn(usesFolder(folder))).length > 0) return null
  const removed = `${folder}.${randomUUID()}.removed`
  const found = await rename(folder, removed).then(
    () => true,
    () => false,
  )
  for (const path of [usesFolder(folder), datasetsFolder(folder)]) await rm(path, { recursive: true, force: true })
  return found ? removed : null
}

/** What interruptions left; `usedBy` names whoever still writes there. */
export async function listLeftovers(dataDir: string): Promise<{ name: string; since: Date; usedBy: string | null }[]> {
  const cache = cacheFolder(dataDir)
  const holders = new Set(await holdersIn(dataDir))
  const names = (await namesIn(cache)).filter((name) => leftoverName.test(name)).toSorted()
  const found = await Promise.all(
    names.map(async (name) => {
      const info = await stat(join(cache, name)).catch(() => null)
      const holder = name.endsWith('.unfinished') ? name.slice(name.indexOf('.') + 1, -'.unfinished'.length) : ''
      return info && { name, since: info.mtime, usedBy: holders.has(holder) ? holder : null }
    }),
  )
  return found.filter((leftover) => leftover !== null)
}

export const removeFolder = (path: string): Promise<void> => rm(path, { recursive: true, force: true })
