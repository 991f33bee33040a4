import { audited } from '../../platform/audit.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict, invalid, notFound } from '../../platform/errors.ts'
import type { PageQuery } from '../../platform/http/lists.ts'
import { cancelRun, insertRun, listSteps } from '../../platform/runs/runs.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { beginSync, findSourceOf, linkSource, requireSyncable, type SyncTarget } from '../datasets/dataset-sync.api.ts'
import {
  deleteConfig,
  findConfig,
  findLastRun,
  findSyncRun,
  insertSyncRun,
  listSyncRuns,
  pruneSyncRuns,
  type SyncConfigRow,
  type SyncRunRow,
  saveConfig,
} from './dataset-syncs.store.ts'
import { findSource, lockSource } from './external-sources.store.ts'
import { folderPrefix } from './source-paths.ts'
import { syncDataset } from './sync.runs.ts'
import { listOutcomes, type SyncAction } from './sync-objects.store.ts'
import { checkSchedule, nextTime } from './sync-schedule.ts'

/** Syncs of a dataset that are remembered. */
const runsKept = 50

const targetOf = (ctx: TenantCtx, datasetId: string): SyncTarget => ({ tenantId: ctx.tenant.id, datasetId })

export interface SyncStatusRow {
  sourceId: string | null
  config: SyncConfigRow | null
  run: SyncRunRow | null
  progress: { fraction: number; message: string | null }
}

/** @source contract PR-28 */
export async function getSync(ctx: TenantCtx, datasetId: string): Promise<SyncStatusRow> {
  const sourceId = await findSourceOf(ctx, datasetId)
  const target = targetOf(ctx, datasetId)
  return read(ctx, async (tx) => {
    const config = (await findConfig(tx, target)) ?? null
    const run = (await findLastRun(tx, target)) ?? null
    return { sourceId, config, run, progress: await progressOf(tx, run) }
  })
}

async function progressOf(tx: Tx, run: SyncRunRow | null): Promise<SyncStatusRow['progress']> {
  if (run?.state !== 'RUNNING') return { fraction: run ? 1 : 0, message: null }
  const steps = await listSteps(tx, run.id)
  const current = steps.find((step) => step.state === 'running')
  const fraction = steps.reduce((sum, step) => sum + step.progress, 0) / Math.max(1, steps.length)
  return { fraction: Math.min(1, fraction), message: current ? (current.message ?? current.title) : null }
}

export interface SyncRequest {
  source_id: string | null
  prefix?: string | null
  include?: string[] | null
  delete_missing?: boolean | null
  schedule?: string | null
}

/**
 * Says how the dataset follows which source; no source ends it, and the files stay. Gives null then.
 * @source contract PR-29
 */
export async function putSync(ctx: TenantCtx, datasetId: string, request: SyncRequest): Promise<SyncStatusRow> {
  const config = checkedRequest(ctx, request)
  const target = targetOf(ctx, datasetId)
  audited(ctx, datasetId, { ...request })
  await transaction(ctx, async (tx) => {
    await requireSyncable(tx, target)
    await requireNoneRunning(tx, target)
    if (request.source_id === null) await deleteConfig(tx, target)
    else if (await lockSource(tx, ctx.tenant.id, request.source_id)) await saveConfig(tx, target, config)
    else throw unknownSource(request.source_id)
    await linkSource(tx, target, request.source_id)
  })
  return getSync(ctx, datasetId)
}

const unknownSource = (id: string) =>
  invalid({ loc: ['body', 'source_id'], msg: 'there is no such external source', type: 'value_error', input: id })

function checkedRequest(ctx: TenantCtx, request: SyncRequest) {
  const prefix = folderPrefix(request.prefix ?? '')
  if (prefix === null)
    throw invalid({
      loc: ['body', 'prefix'],
      msg: 'must be a folder within the source',
      type: 'value_error',
      input: request.prefix,
    })
  const schedule = request.schedule ?? null
  if (schedule !== null) checkSchedule(schedule)
  return {
    prefix,
    schedule,
    include: request.include ?? [],
    deleteMissing: request.delete_missing ?? false,
    nextAt: schedule === null ? null : nextTime(schedule, ctx.clock.now()),
    updatedBy: ctx.actor.email,
  }
}

async function requireNoneRunning(tx: Tx, target: SyncTarget): Promise<void> {
  const last = await findLastRun(tx, target)
  if (last?.state === 'RUNNING')
    throw conflict('A sync is running on this dataset already.', { detail: { reason: 'sync_running' } })
}

/** @source contract PR-30 */
export async function startSync(ctx: TenantCtx, datasetId: string, dryRun: boolean): Promise<string> {
  audited(ctx, datasetId, { dry_run: dryRun })
  const { actor } = ctx
  return transaction(ctx, (tx) =>
    startSyncRun(tx, targetOf(ctx, datasetId), { dryRun, actor, trigger: 'manual', now: ctx.clock.now() }),
  )
}

export interface SyncStart {
  dryRun: boolean
  trigger: 'manual' | 'schedule'
  actor: { userId: string; email: string } | null
  now: Date
}

/** Throws `conflict` with `detail.reason` when the dataset can't be synced now. Returns the id of the run. */
export async function startSyncRun(tx: Tx, target: SyncTarget, start: SyncStart): Promise<string> {
  const { dryRun, trigger, actor, now } = start
  const { tenantId, datasetId } = target
  const { externalSourceId } = await requireSyncable(tx, target)
  await requireNoneRunning(tx, target)
  const source = externalSourceId ? await findSource(tx, tenantId, externalSourceId) : null
  if (!source)
    throw conflict('The dataset follows no external source: set one first.', { detail: { reason: 'no_source' } })
  const subject = `sync:${tenantId}:${datasetId}`
  const id = await insertRun(tx, syncDataset, { tenantId, input: { datasetId, dryRun }, subject, actor })
  if (!id) throw conflict('A sync is ending; try again.', { detail: { reason: 'sync_running' } })
  await pruneSyncRuns(tx, target, runsKept - 1)
  await insertSyncRun(tx, target, {
    id,
    sourceId: source.id,
    sourceName: source.name,
    dryRun,
    trigger,
    startedBy: actor?.email ?? 'schedule',
    startedAt: now,
  })
  if (!dryRun) await beginSync(tx, target, id)
  return id
}

/** Ends the running sync; what it has done stays. @source contract PR-31 */
export async function cancelSync(ctx: TenantCtx, datasetId: string): Promise<SyncStatusRow> {
  await findSourceOf(ctx, datasetId)
  audited(ctx, datasetId)
  await transaction(ctx, async (tx) => {
    const last = await findLastRun(tx, targetOf(ctx, datasetId))
    if (last?.state !== 'RUNNING') throw conflict('No sync is running.', { detail: { reason: 'not_running' } })
    await cancelRun(tx, last.id, `Canceled by ${ctx.actor.email}.`)
  })
  return getSync(ctx, datasetId)
}

export async function listSyncHistory(ctx: TenantCtx, datasetId: string, query: PageQuery) {
  await findSourceOf(ctx, datasetId)
  return read(ctx, (tx) => listSyncRuns(tx, targetOf(ctx, datasetId), query))
}

export async function getSyncRun(ctx: TenantCtx, datasetId: string, runId: string): Promise<SyncRunRow> {
  await findSourceOf(ctx, datasetId)
  const run = await read(ctx, (tx) => findSyncRun(tx, targetOf(ctx, datasetId), runId))
  if (!run) throw notFound('There is no such sync.')
  return run
}

export async function listSyncOutcomes(
  ctx: TenantCtx,
  datasetId: string,
  runId: string,
  query: PageQuery & { action?: SyncAction },
) {
  await getSyncRun(ctx, datasetId, runId)
  return read(ctx, (tx) => listOutcomes(tx, runId, query))
}
