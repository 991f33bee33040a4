import { setTimeout as sleep } from 'node:timers/promises'
import { SourceError } from '../../adapters/external-sources/external-sources.ts'
import { PlatformError } from '../../platform/errors.ts'
import type { StepRun } from '../../platform/runs/define-run.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { changeSyncedFiles, presentFiles, type SyncedFile, syncRoom } from '../datasets/dataset-sync.api.ts'
import { addCounts, noCounts } from './dataset-syncs.store.ts'
import type { SyncInput, SyncJob } from './sync-job.ts'
import type { Listing } from './sync-listing.ts'
import {
  forgetEntries,
  listPending,
  type SyncEntry,
  type SyncObject,
  type SyncOutcome,
  saveEntries,
  settleObjects,
} from './sync-objects.store.ts'

const lanes = 8
const pageSize = 500
/** Written down together: what a kill -9 makes us read again is at most this. */
const batchSize = 100
const batchMs = 3000
const triesMax = 3
/** Objects in a row, none good between them, after which the source itself counts as gone. */
const failuresInRow = 20

interface Fetched extends SyncOutcome {
  file: SyncedFile | null
  version: string | null
  key: string
}

/** Reads what is new or changed, several objects at a time, and makes files of them batch by batch. */
export async function fetchObjects(s: StepRun<SyncInput>, job: SyncJob): Promise<null> {
  const { planned } = s.output<Listing>('list')
  const room = { bytes: await syncRoom(job.ctx, job.target.datasetId) }
  const batches = new Batches(job)
  const objects = pendingObjects(job)
  let done = 0
  let inRow = 0
  const lane = async () => {
    for await (const object of objects) {
      const fetched = await fetchObject(s, job, object, room)
      await batches.add(fetched)
      inRow = fetched.action === 'fail' && fetched.lost ? inRow + 1 : 0
      if (inRow >= failuresInRow) throw new SourceError('unreachable', `The source is gone: ${fetched.reason}`)
      s.progress(++done / Math.max(planned, done), `${done} of ${Math.max(planned, done)} objects`)
    }
  }
  const results = await Promise.allSettled(Array.from({ length: lanes }, lane))
  // What was good is kept, however it went on.
  await batches.flush()
  const failed = results.find((result) => result.status === 'rejected')
  if (failed) throw failed.reason
  return null
}

async function* pendingObjects({ ctx, runId }: SyncJob): AsyncGenerator<SyncObject> {
  for (let after = ''; ; ) {
    const page = await read(ctx, (tx) => listPending(tx, runId, after, pageSize))
    yield* page
    if (page.length < pageSize) return
    after = page.at(-1)!.path
  }
}

/** Never throws for a fault of the object; `lost` when the source may be gone. */
async function fetchObject(
  s: StepRun<SyncInput>,
  job: SyncJob,
  object: SyncObject,
  room: { bytes: number },
): Promise<Fetched & { lost?: boolean }> {
  const { path, key, action } = object
  for (let tries = 1; ; tries++) {
    try {
      s.signal.throwIfAborted()
      return { path, key, action, reason: null, ...(await readObject(s, job, object, room)) }
    } catch (error) {
      if (s.signal.aborted) throw error
      const { reason, again, lost } = judged(error)
      if (!again || tries === triesMax) return { path, key, action: 'fail', reason, file: null, version: null, lost }
      await sleep(250 * 6 ** (tries - 1), undefined, { signal: s.signal })
    }
  }
}

async function readObject(
  s: StepRun<SyncInput>,
  { ctx, source }: SyncJob,
  object: SyncObject,
  room: { bytes: number },
): Promise<{ file: SyncedFile | null; version: string | null; action?: 'unchanged' }> {
  const opened = await source.read(object, object.knownVersion, s.signal)
  if (!opened) return { file: null, version: object.knownVersion, action: 'unchanged' }
  const maxBytes = Math.min(ctx.config.maxUploadBytes, room.bytes)
  const expected = object.version?.startsWith('sha256:') ? { expected: object.version } : {}
  const blob = await ctx.blobs.put(opened.content, { maxBytes, signal: s.signal, ...expected })
  room.bytes -= blob.size
  if (room.bytes < 0) {
    room.bytes += blob.size
    throw new PlatformError('payload_too_large')
  }
  return { file: { path: object.path, ...blob }, version: opened.version }
}

/** Why an object could not be had, and whether another try may help. Throws what no object is to blame for. */
function judged(error: unknown): { reason: string; again: boolean; lost: boolean } {
  if (error instanceof SourceError) {
    const { fault, message } = error
    return {
      reason: message,
      again: fault === 'unreachable' || fault === 'changed',
      lost: fault === 'unreachable' || fault === 'denied',
    }
  }
  if (error instanceof PlatformError && error.code === 'payload_too_large')
    return { reason: 'It is larger than the dataset has room for.', again: false, lost: false }
  if (error instanceof PlatformError && error.code === 'bad_request')
    return { reason: error.message, again: true, lost: false }
  throw error
}

/** Collects what was read and writes it down: files, outcomes and counts in one transaction, one after the other. */
class Batches {
  readonly #job: SyncJob
  #gathered: Fetched[] = []
  #since = Date.now()
  #writing: Promise<void> = Promise.resolve()

  constructor(job: SyncJob) {
    this.#job = job
  }

  async add(fetched: Fetched): Promise<void> {
    this.#gathered.push(fetched)
    if (this.#gathered.length >= batchSize || Date.now() - this.#since >= batchMs) await this.flush()
  }

  flush(): Promise<void> {
    const batch = this.#gathered
    this.#gathered = []
    this.#since = Date.now()
    this.#writing = this.#writing.then(() => this.#write(batch))
    return this.#writing
  }

  async #write(batch: Fetched[]): Promise<void> {
    if (batch.length === 0) return
    const { ctx, target, runId } = this.#job
    await transaction(ctx, async (tx) => {
      const paths = batch.map(({ path }) => path)
      const present = await presentFiles(tx, target, paths)
      const settled = batch.map((fetched) => {
        const same = fetched.file !== null && present.get(fetched.path)?.digest === fetched.file.digest
        return same ? { ...fetched, action: 'unchanged' as const } : fetched
      })
      const files = settled.flatMap(({ action, file }) => (file && action !== 'unchanged' ? [file] : []))
      await changeSyncedFiles(tx, target, runId, { put: files })
      await this.#remember(tx, settled)
      await settleObjects(tx, runId, settled)
      await addCounts(tx, runId, countsOf(settled))
    })
  }

  /** Only what a version is known of can be left unread the next time. */
  async #remember(tx: Parameters<typeof saveEntries>[0], settled: Fetched[]): Promise<void> {
    const { target, originOf } = this.#job
    const entries = settled.flatMap(({ file, path, key, version }): SyncEntry[] =>
      file && version !== null ? [{ path, origin: originOf(key), version, digest: file.digest }] : [],
    )
    await saveEntries(tx, target, entries)
    const unknown = settled.filter(({ file, version }) => file && version === null)
    await forgetEntries(
      tx,
      target,
      unknown.map(({ path }) => path),
    )
  }
}

function countsOf(settled: Fetched[]) {
  const counts = { ...noCounts }
  for (const { action, file } of settled) {
    counts.bytes += file?.size ?? 0
    if (action === 'add') counts.added++
    if (action === 'update') counts.updated++
    if (action === 'fail') counts.failed++
    if (action !== 'unchanged') continue
    counts.unchanged++
    counts.skipped++
  }
  return counts
}
