import { SourceError } from '../../adapters/external-sources/external-sources.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { PlatformError } from '../../platform/errors.ts'
import { defineRun, type RunChange, type RunState, type StepRun, step } from '../../platform/runs/define-run.ts'
import { getRun, insertRun } from '../../platform/runs/runs.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { changeSyncedFiles, endSync, syncedPaths } from '../datasets/dataset-sync.api.ts'
import { notify } from '../notifications/notifications.api.ts'
import { addCounts, endSyncRun, noteSyncError, type SyncRunRow, type SyncState } from './dataset-syncs.store.ts'
import { fetchObjects } from './sync-fetch.ts'
import { type SyncInput, type SyncJob, withJob } from './sync-job.ts'
import { type Listing, listObjects } from './sync-listing.ts'
import { forgetEntries, pruneObjects, stageObjects, unlistedAmong } from './sync-objects.store.ts'

const removedAtOnce = 1000
/** Objects of each action that are kept to be looked at. */
const outcomesKept = 1000
const forgottenAtOnce = 5000

/**
 * Brings the files of a dataset in step with its source: lists it, reads what is new or changed, removes what is gone.
 * What is done stays done, whatever happens next; the dataset is validated when the run has ended.
 * @source contract PR-28 to PR-31
 */
export const syncDataset = defineRun<SyncInput>({
  kind: 'external-sources.sync',
  maxConcurrent: 2,
  steps: [
    step('list', 'List the source', (s) => atSource(s, (job) => listObjects(s, job))),
    step('fetch', 'Read new and changed objects', (s) => {
      if (s.input.dryRun) return s.skip('a dry run changes nothing')
      return atSource(s, (job) => fetchObjects(s, job))
    }),
    step('remove', 'Remove what the source no longer has', (s) => {
      if (s.input.dryRun) return s.skip('a dry run changes nothing')
      return atSource(s, (job) => removeMissing(s, job))
    }),
  ],
  changed,
})

/** What a source did wrong is told; what we did wrong is not. */
async function atSource<T>(s: StepRun<SyncInput>, work: (job: SyncJob) => Promise<T>): Promise<T> {
  try {
    return await withJob(s, work)
  } catch (error) {
    if (!(error instanceof SourceError)) throw error
    throw new PlatformError('bad_gateway', error.message, { detail: { reason: `source_${error.fault}` }, cause: error })
  }
}

async function removeMissing(s: StepRun<SyncInput>, { ctx, target, runId, config }: SyncJob): Promise<null> {
  if (!config.deleteMissing) s.skip('the dataset keeps what the source no longer has')
  if (s.output<Listing>('list').gaps > 0) s.skip('the source could not be listed whole')
  for (let after = ''; ; ) {
    s.signal.throwIfAborted()
    const page = await read(ctx, (tx) => syncedPaths(tx, target, after, removedAtOnce))
    await transaction(ctx, async (tx) => {
      const missing = await unlistedAmong(tx, runId, page)
      if (missing.length === 0) return
      await changeSyncedFiles(tx, target, runId, { remove: missing })
      await forgetEntries(tx, target, missing)
      const rows = missing.map((path) => ({ ...removed, path }))
      await stageObjects(tx, { id: runId, tenantId: target.tenantId }, rows)
      await addCounts(tx, runId, { removed: missing.length })
    })
    if (page.length < removedAtOnce) return null
    after = page.at(-1)!
  }
}

const removed = {
  key: '',
  size: null,
  version: null,
  knownVersion: null,
  action: 'remove',
  reason: null,
  done: true,
} as const

/** A list may have a million rows: they go afterwards and bit by bit, so that nobody waits for it. */
export const tidySync = defineRun<{ runId: string }>({
  kind: 'external-sources.tidy',
  maxConcurrent: 1,
  steps: [
    step('objects', 'Forget what tells nothing', async (s) => {
      for (let removed = forgottenAtOnce; removed === forgottenAtOnce; ) {
        s.signal.throwIfAborted()
        removed = await transaction(s.ctx, (tx) => pruneObjects(tx, s.input.runId, outcomesKept, forgottenAtOnce))
      }
    }),
  ],
})

const endStates: Partial<Record<RunState, SyncState>> = { succeeded: 'DONE', failed: 'FAILED', canceled: 'CANCELED' }

async function changed(tx: Tx, change: RunChange<SyncInput>): Promise<void> {
  const state = change.what === 'run' && endStates[change.state]
  if (!state) return
  const { runId, tenantId, input } = change
  const target = { tenantId: tenantId!, datasetId: input.datasetId }
  await endSync(tx, target, runId)
  const ended = await endSyncRun(tx, runId, state, new Date())
  if (!ended) return
  await insertRun(tx, tidySync, { tenantId, input: { runId }, subject: `sync-objects:${runId}`, actor: null })
  const { error } = change as { error: { message: string; detail?: unknown } | null }
  if (state === 'FAILED') {
    const code = (error?.detail as { reason?: string } | undefined)?.reason ?? 'sync_failed'
    await noteSyncError(tx, runId, { code, message: error?.message ?? 'The sync could not go on.' })
  } else if (state === 'DONE' && ended.failed > 0) {
    const message = `${ended.failed} objects could not be read; the list of objects says why.`
    await noteSyncError(tx, runId, { code: 'completed_with_errors', message })
  }
  if (state === 'FAILED' || ended.failed > 0) await tell(tx, ended, state, error?.message ?? null)
}

/** Who began it; of a scheduled one, who may change the dataset. */
async function tell(tx: Tx, run: SyncRunRow, state: SyncState, reason: string | null): Promise<void> {
  const { actorId } = await getRun(tx, run.id)
  const what = state === 'FAILED' ? 'failed' : `left out ${run.failed} objects`
  await notify(tx, {
    tenantId: run.tenantId,
    to: actorId ? { userIds: [actorId] } : { permission: 'DATASET_WRITE' },
    group: 'dataset',
    title: `The sync of ${run.datasetId} from ${run.sourceName} ${what}`,
    body: reason,
    link: `/datasets/${encodeURIComponent(run.datasetId)}`,
    dedupeKey: `sync:${run.id}`,
  })
}
