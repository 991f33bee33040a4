import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { downsample, outline, type SeriesPoint } from './downsampling.ts'

export interface MetricPoint {
  key: string
  step: number
  /** NaN and the infinities are kept. */
  value: number
  timestampMs: number
}

/** Points in one packed row. */
const chunkPoints = 256

/** Appends points and keeps the last value per key; a point that is there already is left out. */
export async function insertMetrics(tx: Tx, tenantId: string, runId: string, points: MetricPoint[]): Promise<void> {
  if (points.length === 0) return
  await sql`
    select tracker_log_metrics(${tenantId}, ${points.map(() => runId)}::uuid[],
      ${points.map((point) => point.key)}::text[], ${points.map((point) => point.step)}::bigint[],
      ${points.map((point) => point.timestampMs)}::bigint[], ${points.map((point) => point.value)}::float8[])`.execute(
    tx,
  )
}

/** Points of one series: all of them, or what outlines them when there are too many. */
export interface SeriesCandidates {
  key: string
  total: number
  /** Ordered by step, time and value. */
  points: SeriesPoint[]
}

/** What curves of `enough` points are drawn from; at most 128 times as many are read. Null keys take every key. */
export async function findSeries(
  tx: Tx,
  tenantId: string,
  runId: string,
  keys: string[] | null,
  enough: number,
  within: { from: number; to: number } | null = null,
): Promise<SeriesCandidates[]> {
  const found = await readSeries(tx, tenantId, runId, keys, enough, within)
  // Where a curve only falls, the first point of a stretch is its highest too: outlines of it hold half as many points.
  const sparse = found.filter(({ points, total }) => points.length < Math.min(enough, total)).map(({ key }) => key)
  if (sparse.length === 0) return found
  const finer = await readSeries(tx, tenantId, runId, sparse, enough * 2, within)
  const finerOf = new Map(finer.map((series) => [series.key, series]))
  return found.map((series) => finerOf.get(series.key) ?? series)
}

/** About `enough` points of each, at least half as many. */
async function readSeries(
  tx: Tx,
  tenantId: string,
  runId: string,
  keys: string[] | null,
  enough: number,
  within: { from: number; to: number } | null,
): Promise<SeriesCandidates[]> {
  const result = await sql<SeriesColumns>`
    select m.key, m.packed_count, c.* from tracker_metrics m cross join lateral (
      select coalesce(json_agg(step), '[]') as steps, coalesce(json_agg(at_ms), '[]') as times,
        coalesce(json_agg(value), '[]') as point_values, count(*) filter (where loose) as loose
      from tracker_curve(m.series_id, m.packed_count, ${enough}, ${within?.from ?? null}, ${within?.to ?? null})
    ) c
    where m.tenant_id = ${tenantId} and m.run_id = ${runId}
      and ${keys === null ? sql`true` : sql`m.key = any(${keys}::text[])`}
    order by m.key`.execute(tx)
  return result.rows.map(candidatesOf)
}

interface SeriesColumns {
  key: string
  packedCount: number
  /** How many of the points, the last ones of the columns, are in no chunk yet. */
  loose: number
  steps: number[]
  times: number[]
  /** JSON knows no NaN and no infinity; PostgreSQL writes them as texts that Number reads. */
  pointValues: (number | string)[]
}

function candidatesOf({ key, packedCount, loose, steps, times, pointValues }: SeriesColumns): SeriesCandidates {
  const total = packedCount + loose
  const all = steps.map((step, place) => ({ step, value: Number(pointValues[place]), ts: times[place]! }))
  const packed = all.length - loose
  const newest = all.slice(packed).sort(byStep)
  // Where the older points are outlines, the newest must not weigh more than they do.
  const points = packed < packedCount ? [...all.slice(0, packed), ...outline(newest)] : all
  return { key, total, points: points.sort(byStep) }
}

const byStep = (a: SeriesPoint, b: SeriesPoint): number => a.step - b.step || a.ts - b.ts || a.value - b.value

export interface MetricHistoryPage {
  points: { step: number; timestampMs: number; value: number }[]
  more: boolean
}

/** Every point of a series from a place on, oldest first as far as they came in order. */
export async function findHistory(
  tx: Tx,
  tenantId: string,
  runId: string,
  key: string,
  { offset, limit }: { offset: number; limit: number },
): Promise<MetricHistoryPage> {
  const result = await sql<{ step: number; timestampMs: number; value: number }>`
    with series as (
      select series_id, packed_count from tracker_metrics
      where tenant_id = ${tenantId} and run_id = ${runId} and key = ${key}
    )
    select step, at_ms as timestamp_ms, value from (
      select c.chunk * ${chunkPoints}::bigint + u.place - 1 as place, u.step, u.at_ms, u.value
      from series s join tracker_metric_chunks c using (series_id),
        unnest(c.steps, c.at_ms, c.point_values) with ordinality u(step, at_ms, value, place)
      where c.chunk between ${Math.floor(offset / chunkPoints)} and ${Math.floor((offset + limit) / chunkPoints)}
      union all
      select s.packed_count + row_number() over (order by p.step, p.at_ms, p.value) - 1, p.step, p.at_ms, p.value
      from series s join tracker_metric_points p using (series_id)
    ) point
    where place >= ${offset}
    order by place limit ${limit + 1}`.execute(tx)
  return { points: result.rows.slice(0, limit), more: result.rows.length > limit }
}

/** At most `most` points of a series, of all steps or an interval of them, with ends and extremes kept. */
export async function findHistorySample(
  tx: Tx,
  tenantId: string,
  runId: string,
  key: string,
  steps: { from: number; to: number } | null,
  most: number,
): Promise<{ step: number; timestampMs: number; value: number }[]> {
  const [series] = await findSeries(tx, tenantId, runId, [key], most, steps)
  if (!series) return []
  return downsample(series.points, most).map(({ step, ts, value }) => ({ step, timestampMs: ts, value }))
}
