import { join } from 'node:path'
import { audited } from '../../platform/audit.ts'
import type { Ctx, TenantCtx } from '../../platform/context.ts'
import { conflict, notFound } from '../../platform/errors.ts'
import { transaction } from '../../platform/transaction.ts'
import { findTrainableDataset } from '../datasets/datasets.api.ts'
import { type CacheEntry, cacheFolder, listEntries, listLeftovers, removeFolder, takeOut } from './cache-folder.ts'
import { lockCache } from './dataset-cache.store.ts'

/** So long a dataset that nobody trains on stays laid out: laying it out again takes seconds. */
const idleMaxMs = 7 * 24 * 3600_000
const leftoverMaxMs = 3600_000

export interface CacheStatus {
  entries: CacheEntry[]
  volumes: Awaited<ReturnType<typeof listLeftovers>>
}

/** What lies in the cache of this machine, of every tenant. */
export async function getCacheStatus({ config }: Ctx): Promise<CacheStatus> {
  return { entries: await listEntries(config.dataDir), volumes: await listLeftovers(config.dataDir) }
}

export interface Cleared {
  removed: CacheEntry[]
  /** What trainings use stays. */
  kept: CacheEntry[]
}

/** Removes every dataset that no training uses. */
export function clearCache(ctx: Ctx): Promise<Cleared> {
  audited(ctx, 'all')
  return clear(ctx, () => true)
}

/** Removes one dataset. Throws `not_found` when it is not in the cache, `conflict` while a training uses it. */
export function clearDataset(ctx: Ctx, datasetId: string): Promise<Cleared> {
  audited(ctx, datasetId)
  const isMeant = ({ datasets }: CacheEntry) => datasets.some((dataset) => dataset.datasetId === datasetId)
  return clear(ctx, isMeant, ({ removed, kept: [used] }) => {
    if (removed.length > 0) return
    if (!used) throw notFound('No dataset of this identifier is in the cache.')
    throw conflict('A training uses it.', { detail: { reason: 'in_use', in_use_by: used.holders } })
  })
}

/** Removes what nobody trained on for a week, what is no dataset's any more, and what interruptions left an hour ago. */
export async function tidyCache(ctx: Ctx): Promise<Cleared> {
  const { dataDir } = ctx.config
  const now = ctx.clock.now().getTime()
  for (const { name, since, usedBy } of await listLeftovers(dataDir))
    if (!usedBy && now - since.getTime() > leftoverMaxMs) await removeFolder(join(cacheFolder(dataDir), name))
  const orphaned = new Set<string>()
  for (const entry of await listEntries(dataDir)) if (!(await isDatasets(ctx, entry))) orphaned.add(entry.digest)
  return clear(ctx, ({ digest, lastUsedAt }) => orphaned.has(digest) || now - lastUsedAt.getTime() > idleMaxMs)
}

/** Whether one of the datasets that it was laid out for still is what it was. */
async function isDatasets(ctx: Ctx, { digest, datasets }: CacheEntry): Promise<boolean> {
  for (const { tenantId, tenant, datasetId } of datasets) {
    const own = { ...ctx, kind: 'tenant', scope: { tenantId }, tenant: { id: tenantId, code: tenant } } as TenantCtx
    if ((await findTrainableDataset(own, datasetId))?.digest === digest) return true
  }
  return false
}

async function clear(
  ctx: Ctx,
  isMeant: (entry: CacheEntry) => boolean,
  check: (cleared: Cleared) => void = () => {},
): Promise<Cleared> {
  const { dataDir } = ctx.config
  const cleared: Cleared = { removed: [], kept: [] }
  const folders: string[] = []
  await transaction(ctx, async (tx) => {
    await lockCache(tx)
    for (const entry of (await listEntries(dataDir)).filter(isMeant)) {
      const folder = await takeOut(dataDir, entry.digest)
      if (folder) folders.push(folder)
      cleared[folder ? 'removed' : 'kept'].push(entry)
    }
    check(cleared)
  })
  for (const folder of folders) await removeFolder(folder)
  return cleared
}

/** Removes what an interruption left. Throws `not_found`, or `conflict` while a training writes there. */
export async function removeLeftover(ctx: Ctx, name: string): Promise<void> {
  audited(ctx, name)
  const { dataDir } = ctx.config
  await transaction(ctx, async (tx) => {
    await lockCache(tx)
    const leftover = (await listLeftovers(dataDir)).find((candidate) => candidate.name === name)
    if (!leftover) throw notFound('There is no such volume.')
    if (leftover.usedBy)
      throw conflict('A training writes there.', { detail: { reason: 'in_use', in_use_by: [leftover.usedBy] } })
  })
  await removeFolder(join(cacheFolder(dataDir), name))
}
