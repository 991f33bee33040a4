import { text } from 'node:stream/consumers'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict, notFound } from '../../platform/errors.ts'
import { runArtifactFolder } from './artifact-addresses.api.ts'
import {
  type ArtifactFile,
  deleteArtifacts,
  findArtifact,
  findArtifactsBelow,
  upsertArtifacts,
} from './artifacts.store.ts'
import { downsample, type SeriesPoint } from './downsampling.ts'
import { findExperiment, findExperimentByName, insertExperiment } from './experiments.store.ts'
import { findSeries, insertMetrics, type MetricPoint, type SeriesCandidates } from './metrics.store.ts'
import { findRunData, type RunData } from './run-data.store.ts'
import {
  deleteRun,
  findRun,
  insertParams,
  insertRun,
  type TrackerRunRow,
  type TrackerRunStatus,
  updateRun,
  upsertTags,
} from './runs.store.ts'

export type { ArtifactFile, MetricPoint, SeriesPoint, TrackerRunRow }

/** What the tracker needs to know of the caller. */
export type TrackerCtx = Pick<TenantCtx, 'tenant' | 'actor' | 'clock'>

export interface NewTrackedRun {
  /** Made when there is none of that name. */
  experimentName: string
  runName: string
  tags: Record<string, string>
  params: Record<string, string>
}

/** Opens a run in the tracker. Throws `conflict` when the experiment of that name is deleted. */
export async function createTrackerRun(
  tx: Tx,
  ctx: TrackerCtx,
  { experimentName, runName, tags, params }: NewTrackedRun,
): Promise<{ runId: string; experimentId: string }> {
  const tenantId = ctx.tenant.id
  const experimentId = await experimentNamed(tx, tenantId, experimentName)
  const run = { experimentId, name: runName, userName: ctx.actor.email, startMs: ctx.clock.now().getTime() }
  const runId = await insertRun(tx, tenantId, run)
  await insertParams(tx, tenantId, runId, Object.entries(params))
  await upsertTags(tx, tenantId, runId, Object.entries({ 'mlflow.runName': runName, ...tags }))
  return { runId, experimentId: String(experimentId) }
}

async function experimentNamed(tx: Tx, tenantId: string, name: string): Promise<number> {
  const known = await findExperimentByName(tx, tenantId, name)
  const made = known ? null : await insertExperiment(tx, tenantId, name)
  if (made !== null) return made
  // Somebody else made it in between.
  const experiment = known ?? (await findExperimentByName(tx, tenantId, name))
  if (!experiment) throw new Error(`experiment ${name} could neither be made nor found`)
  if (experiment.lifecycleStage === 'deleted') throw conflict(`The tracker experiment ${name} is deleted; restore it.`)
  return experiment.experimentId
}

/** Throws `not_found`. */
export async function getTrackerRun(tx: Tx, ctx: TrackerCtx, runId: string): Promise<TrackerRunRow> {
  const run = await findRun(tx, ctx.tenant.id, runId)
  if (!run) throw notFound('There is no such run in the tracker.')
  return run
}

/** Appends metric points; the same point sent again counts once. */
export const logTrackerMetrics = (tx: Tx, ctx: TrackerCtx, runId: string, points: MetricPoint[]): Promise<void> =>
  insertMetrics(tx, ctx.tenant.id, runId, points)

/** Parameters never change. Throws `conflict` with `detail.key` when one holds another value. */
export async function logTrackerParams(
  tx: Tx,
  ctx: TrackerCtx,
  runId: string,
  params: Record<string, string>,
): Promise<void> {
  const [changed] = await insertParams(tx, ctx.tenant.id, runId, Object.entries(params))
  if (changed) throw conflict(`The parameter ${changed.key} is ${changed.held} already.`, { detail: changed })
}

export const setTrackerTags = (tx: Tx, ctx: TrackerCtx, runId: string, tags: Record<string, string>): Promise<void> =>
  upsertTags(tx, ctx.tenant.id, runId, Object.entries(tags))

export const endTrackerRun = (
  tx: Tx,
  ctx: TrackerCtx,
  runId: string,
  status: Extract<TrackerRunStatus, 'FINISHED' | 'FAILED' | 'KILLED'>,
): Promise<void> => updateRun(tx, ctx.tenant.id, runId, { status, endMs: ctx.clock.now().getTime() })

/** Shows blobs among the run's artifacts; `path` is relative to the run. */
export async function putRunArtifacts(
  tx: Tx,
  ctx: TrackerCtx,
  runId: string,
  files: { path: string; digest: string; size: number }[],
): Promise<void> {
  const { experimentId } = await getTrackerRun(tx, ctx, runId)
  const folder = runArtifactFolder(experimentId, runId)
  const below = files.map((file) => ({ ...file, path: `${folder}/${file.path}` }))
  await upsertArtifacts(tx, ctx.tenant.id, below)
}

/** A run with everything that says how it came about. */
export interface TrackerRunSummary {
  run: TrackerRunRow
  experimentName: string
  params: RunData['params']
  tags: RunData['tags']
  metrics: RunData['metrics']
}

/** Null when there is no such run, or no more. */
export async function findTrackerRunSummary(tx: Tx, ctx: TrackerCtx, runId: string): Promise<TrackerRunSummary | null> {
  const run = await findRun(tx, ctx.tenant.id, runId)
  if (!run) return null
  const experiment = await findExperiment(tx, ctx.tenant.id, run.experimentId)
  const data = await findRunData(tx, ctx.tenant.id, [runId])
  return { run, experimentName: experiment?.name ?? '', ...data.get(runId)! }
}

const longestReportBytes = 4 << 20

/** Text of a small file of a run, or null when there is none of that path; `path` is relative to the run. */
export async function readRunArtifact(
  tx: Tx,
  ctx: TrackerCtx & Pick<TenantCtx, 'blobs'>,
  runId: string,
  path: string,
): Promise<string | null> {
  const run = await findRun(tx, ctx.tenant.id, runId)
  const place = run && `${runArtifactFolder(run.experimentId, runId)}/${path}`
  const file = place && (await findArtifact(tx, ctx.tenant.id, place))
  if (!file || file.size > longestReportBytes) return null
  return text(await ctx.blobs.open(file.digest))
}

/** Files below a folder of the tenant's artifact root; the paths are relative to that folder. */
export async function findArtifactFiles(
  tx: Tx,
  ctx: { tenant: { id: string } },
  folder: string,
): Promise<ArtifactFile[]> {
  const files = await findArtifactsBelow(tx, ctx.tenant.id, folder)
  return files.map((file) => ({ ...file, path: file.path.slice(folder.length + 1) }))
}

export interface MetricSeries {
  key: string
  /** Points there are, before downsampling. */
  total: number
  downsampled: boolean
  points: SeriesPoint[]
}

/**
 * Curves of a run, each at most `maxPoints` long with its ends and extremes kept; null keys take every key, unknown
 * ones are left out.
 * @source contract B4.9
 */
export async function readMetricSeries(
  tx: Tx,
  ctx: TrackerCtx,
  runId: string,
  { keys, maxPoints }: { keys: string[] | null; maxPoints: number },
): Promise<{ keys: string[]; series: MetricSeries[] }> {
  const found = await findSeries(tx, ctx.tenant.id, runId, keys, maxPoints)
  return { keys: found.map((series) => series.key), series: found.map((series) => curve(series, maxPoints)) }
}

function curve(series: SeriesCandidates, maxPoints: number): MetricSeries {
  const { key, total } = series
  const points = downsample(series.points, maxPoints)
  return { key, total, downsampled: points.length < total, points }
}

/** Removes a run with everything it logged, its files included. No error when it is gone already. */
export async function deleteTrackerRun(tx: Tx, ctx: TrackerCtx, runId: string): Promise<void> {
  const run = await findRun(tx, ctx.tenant.id, runId)
  if (!run) return
  await deleteArtifacts(tx, ctx.tenant.id, `${run.experimentId}/${runId}`)
  await deleteRun(tx, ctx.tenant.id, runId)
}
