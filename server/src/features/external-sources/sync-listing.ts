import type { Listed, SourceObject } from '../../adapters/external-sources/external-sources.ts'
import { SourceError } from '../../adapters/external-sources/external-sources.ts'
import { PlatformError } from '../../platform/errors.ts'
import type { StepRun } from '../../platform/runs/define-run.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { presentFiles, syncedPaths } from '../datasets/dataset-sync.api.ts'
import { noCounts, noteSyncError, type SyncCounts, setCounts } from './dataset-syncs.store.ts'
import { fitsPattern } from './path-patterns.ts'
import { datasetPath, shownName } from './source-paths.ts'
import type { SyncInput, SyncJob } from './sync-job.ts'
import { clearObjects, findEntries, type SyncObject, stageObjects, unlistedAmong } from './sync-objects.store.ts'

const batchSize = 1000
const objectsMax = 1_000_000

/** What the later steps need to know of the list. */
export interface Listing {
  objects: number
  /** To be read. */
  planned: number
  /** Parts of the source that could not be listed: what is there, nobody knows. */
  gaps: number
}

/** Writes down every object and what is to become of it. Begins from the start when it is interrupted. */
export async function listObjects(s: StepRun<SyncInput>, job: SyncJob): Promise<Listing> {
  const plan = new Plan(job, s.input.dryRun)
  await transaction(job.ctx, (tx) => clearObjects(tx, s.runId))
  let batch: Listed[] = []
  const flush = async () => {
    await plan.add(batch)
    batch = []
    s.progress(0, `${plan.listing.objects} objects listed`)
  }
  for await (const listed of job.source.list(job.config.prefix, s.signal)) {
    batch.push(listed)
    if (batch.length >= batchSize) await flush()
  }
  await flush()
  await plan.finish()
  s.log(`${plan.listing.objects} objects listed, ${plan.listing.planned} to read`)
  return plan.listing
}

class Plan {
  readonly listing: Listing = { objects: 0, planned: 0, gaps: 0 }
  readonly #job: SyncJob
  readonly #counts: SyncCounts = { ...noCounts }
  readonly #gaps: string[] = []
  readonly #dryRun: boolean

  constructor(job: SyncJob, dryRun: boolean) {
    this.#job = job
    this.#dryRun = dryRun
  }

  async add(listed: Listed[]): Promise<void> {
    const { ctx, target, runId } = this.#job
    const rows = new Map<string, SyncObject>()
    const objects: (SourceObject & { path: string })[] = []
    for (const item of listed) {
      if ('skipped' in item) {
        this.#noteGap(item)
        rows.set(shownName(item.name), skipped(shownName(item.name), '', item.skipped))
      } else this.#sort(item, objects, rows)
    }
    const paths = objects.map(({ path }) => path)
    const { files, entries } = await read(ctx, async (tx) => ({
      files: await presentFiles(tx, target, paths),
      entries: await findEntries(tx, target, paths),
    }))
    for (const object of objects) rows.set(object.path, this.#planned(object, files, entries))
    const fresh = await transaction(ctx, (tx) =>
      stageObjects(tx, { id: runId, tenantId: target.tenantId }, [...rows.values()]),
    )
    for (const path of fresh) this.#count(rows.get(path)!)
    // What was listed twice is taken once.
    this.#counts.skipped += objects.length - objects.filter(({ path }) => fresh.has(path)).length
    if (this.listing.objects > objectsMax)
      throw new PlatformError('bad_request', `The source has more than ${objectsMax} objects.`)
  }

  #noteGap(item: { name: string; skipped: string; incomplete: boolean }): void {
    if (!item.incomplete) return
    this.listing.gaps++
    if (this.#gaps.length < 3) this.#gaps.push(shownName(item.name))
  }

  /** What the patterns leave out is as if it were not there. */
  #sort(item: SourceObject, objects: (SourceObject & { path: string })[], rows: Map<string, SyncObject>): void {
    const { include } = this.#job.config
    const checked = datasetPath(item.name)
    if (!checked) return
    const fits = include.length === 0 || include.some((pattern) => fitsPattern(item.name, pattern))
    if (!fits) return
    if ('path' in checked) objects.push({ ...item, path: checked.path })
    else rows.set(shownName(item.name), skipped(shownName(item.name), '', checked.unfit))
  }

  #planned(
    { path, key, size, version }: SourceObject & { path: string },
    files: Awaited<ReturnType<typeof presentFiles>>,
    entries: Awaited<ReturnType<typeof findEntries>>,
  ): SyncObject {
    // A dry run is done with an object when it is listed.
    const row = { path, key, size, version, knownVersion: null, reason: null, done: this.#dryRun }
    const file = files.get(path)
    if (size !== null && size > this.#job.ctx.config.maxUploadBytes)
      return skipped(path, key, 'it is larger than PLATFORM_MLOPS_MAX_UPLOAD_BYTES allows', size)
    if (!file) return { ...row, action: 'add' }
    if (file.origin === 'upload') return skipped(path, key, 'an uploaded file has this name', size)
    if (version === file.digest) return { ...row, action: 'unchanged', done: true }
    const entry = entries.get(path)
    const knownVersion =
      entry?.origin === this.#job.originOf(key) && entry.digest === file.digest ? entry.version : null
    if (version !== null && version === knownVersion) return { ...row, knownVersion, action: 'unchanged', done: true }
    const reason = this.#dryRun && version === null ? 'only reading it tells whether it changed' : null
    return { ...row, knownVersion, action: 'update', reason }
  }

  #count({ action }: SyncObject): void {
    this.listing.objects++
    if (action === 'add' || action === 'update') this.listing.planned++
    if (action === 'skip' || action === 'unchanged') this.#counts.skipped++
    if (action === 'unchanged') this.#counts.unchanged++
    if (action === 'add') this.#counts.added++
    if (action === 'update') this.#counts.updated++
  }

  /** A dry run tells what would be; otherwise what is added and updated is counted when it is done. */
  async finish(): Promise<void> {
    const { ctx, runId, config } = this.#job
    if (config.deleteMissing) await this.#refuseEmpty()
    if (this.#dryRun)
      this.#counts.removed = config.deleteMissing && this.listing.gaps === 0 ? await this.#planRemovals() : 0
    const counts = this.#dryRun ? this.#counts : { ...this.#counts, added: 0, updated: 0 }
    await transaction(ctx, async (tx) => {
      await setCounts(tx, runId, counts)
      if (this.listing.gaps > 0) await noteSyncError(tx, runId, incompleteListing(this.#gaps, config.deleteMissing))
    })
  }

  /** A share that is not mounted is an empty folder: that is no reason to delete everything. */
  async #refuseEmpty(): Promise<void> {
    const { ctx, target } = this.#job
    if (this.listing.objects > 0) return
    const paths = await read(ctx, (tx) => syncedPaths(tx, target, '', 1))
    if (paths.length > 0)
      throw new SourceError('invalid', 'The source is empty. Nothing is deleted for that; delete the files by hand.')
  }

  async #planRemovals(): Promise<number> {
    const { ctx, target, runId } = this.#job
    let removed = 0
    for (let after = ''; ; ) {
      const page = await read(ctx, (tx) => syncedPaths(tx, target, after, batchSize))
      const missing = await read(ctx, (tx) => unlistedAmong(tx, runId, page))
      const rows = missing.map((path) => ({ ...skipped(path, '', null), action: 'remove' as const }))
      await transaction(ctx, (tx) => stageObjects(tx, { id: runId, tenantId: target.tenantId }, rows))
      removed += missing.length
      if (page.length < batchSize) return removed
      after = page.at(-1)!
    }
  }
}

const skipped = (path: string, key: string, reason: string | null, size: number | null = null): SyncObject => ({
  path,
  key,
  size,
  version: null,
  knownVersion: null,
  action: 'skip',
  reason,
  done: true,
})

const incompleteListing = (gaps: string[], deleting: boolean) => ({
  code: 'incomplete_listing',
  message:
    `Parts of the source could not be listed, such as ${gaps.join(', ')}.` +
    (deleting ? ' Nothing was removed from the dataset.' : ''),
})
