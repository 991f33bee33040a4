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
/** Loose points of a series that make it worth packing; the newest chunk's worth stays loose, so resends are seen. */
const packFrom = 3 * chunkPoints

/** Appends points and keeps the last value per key; a point that is there already is left out. */
export async function insertMetrics(tx: Tx, tenantId: string, runId: string, points: MetricPoint[]): Promise<void> {
  if (points.length === 0) return
  const result = await sql<{ fullSeries: string[] | null }>`
    select tracker_log_metrics(${tenantId}, ${runId}, ${metricColumns(points)}, ${packFrom}) as full_series`.execute(tx)
  for (const key of result.rows[0]?.fullSeries ?? []) await packSeries(tx, tenantId, runId, key)
}

/** Keys, steps, times and values as the functions of the database take them. */
const metricColumns = (points: MetricPoint[]) => sql`
  ${points.map((point) => point.key)}::text[], ${points.map((point) => point.step)}::bigint[],
  ${points.map((point) => point.timestampMs)}::bigint[], ${points.map((point) => point.value)}::float8[]`

export interface LoggedEntries {
  metrics: MetricPoint[]
  params: [key: string, value: string][]
  tags: [key: string, value: string][]
}

export interface LogOutcome {
  /** Null when there is no such run; nothing was logged unless it is active. */
  lifecycle: 'active' | 'deleted' | null
  /** A parameter that holds another value; then the caller must give the transaction up. */
  changedKey: string | null
  held: string | null
  given: string | null
}

/** Everything that one request logs to a run, in one round trip. */
export async function logToRun(
  tx: Tx,
  tenantId: string,
  runId: string,
  { metrics, params, tags }: LoggedEntries,
): Promise<LogOutcome> {
  const columns = (entries: [string, string][]) =>
    sql`${entries.map(([key]) => key)}::text[], ${entries.map(([, value]) => value)}::text[]`
  const result = await sql<LogOutcome & { fullSeries: string[] | null }>`
    select * from tracker_log(${tenantId}, ${runId}, ${columns(params)}, ${columns(tags)},
      ${metricColumns(metrics)}, ${packFrom})`.execute(tx)
  const { fullSeries, ...outcome } = result.rows[0]!
  for (const key of fullSeries ?? []) await packSeries(tx, tenantId, runId, key)
  return outcome
}

/** Moves the oldest loose points of a series into full chunks. The caller holds the series' row. */
async function packSeries(tx: Tx, tenantId: string, runId: string, key: string): Promise<void> {
  await sql`
    with series as (
      select series_id from tracker_metrics where tenant_id = ${tenantId} and run_id = ${runId} and key = ${key}
    ),
    ordered as (
      select step, at_ms, value, row_number() over (order by step, at_ms, value) - 1 as place, count(*) over () as total
      from tracker_metric_points where series_id = (select series_id from series)
    ),
    taken as (
      select *, place / ${chunkPoints} as part from ordered
      where place < (total - ${chunkPoints}) / ${chunkPoints} * ${chunkPoints}
    ),
    outlined as (
      select part, step, at_ms, value, place,
        row_number() over (partition by part order by value, place) as lowest,
        row_number() over (partition by part order by value = 'NaN', value desc, place) as highest
      from taken
    ),
    outline as (
      select part, array_agg(step order by place) as steps, array_agg(at_ms order by place) as at_ms,
        array_agg(value order by place) as point_values
      from outlined
      where lowest = 1 or highest = 1 or place % ${chunkPoints} in (0, ${chunkPoints - 1})
      group by part
    ),
    packed as (
      select part, array_agg(step order by place) as steps, array_agg(at_ms order by place) as at_ms,
        array_agg(value order by place) as point_values
      from taken group by part
    ),
    written as (
      insert into tracker_metric_chunks
        (series_id, chunk, tenant_id, outline_steps, outline_at_ms, outline_values, steps, at_ms, point_values)
      select series_id, part + (
          select coalesce(max(chunk) + 1, 0) from tracker_metric_chunks c where c.series_id = s.series_id
        ), ${tenantId}, o.steps, o.at_ms, o.point_values, p.steps, p.at_ms, p.point_values
      from packed p join outline o using (part), series s
    ),
    removed as (
      delete from tracker_metric_points p using taken t
      where p.series_id = (select series_id from series) and p.step = t.step and p.at_ms = t.at_ms and p.value = t.value
    )
    update tracker_metrics set
      packed_count = packed_count + (select count(*) from taken),
      loose_count = (select count(*) from ordered) - (select count(*) from taken)
    where tenant_id = ${tenantId} and run_id = ${runId} and key = ${key}`.execute(tx)
}

/** Points of one series, ordered by step: all of them, or the outlines of its chunks when there are too many. */
export interface SeriesCandidates {
  key: string
  total: number
  /** How many of them, the newest as a rule, stand here whole even when the others are outlines. */
  loose: number
  steps: number[]
  times: number[]
  values: number[]
}

/** At most about `enough` points are read whole; beyond, four outline every 256. Null keys take every key. */
export async function findSeries(
  tx: Tx,
  tenantId: string,
  runId: string,
  keys: string[] | null,
  enough: number,
  within: { from: number; to: number } | null = null,
): Promise<SeriesCandidates[]> {
  // So many packed points give `enough` outline points.
  const outlineFrom = (enough * chunkPoints) / 4
  const result = await sql<Omit<SeriesCandidates, 'values'> & { pointValues: (number | string)[] }>`
    select m.key, m.packed_count + c.loose as total, c.loose, c.steps, c.times, c.point_values
    from tracker_metrics m cross join lateral (
      select count(*) filter (where loose) as loose,
        coalesce(json_agg(step order by step, at_ms, value), '[]') as steps,
        coalesce(json_agg(at_ms order by step, at_ms, value), '[]') as times,
        coalesce(json_agg(value order by step, at_ms, value), '[]') as point_values
      from (
        select u.*, false as loose
        from tracker_metric_chunks c, unnest(c.outline_steps, c.outline_at_ms, c.outline_values) u(step, at_ms, value)
        where c.series_id = m.series_id and m.packed_count > ${outlineFrom}
        union all
        select u.*, false
        from tracker_metric_chunks c, unnest(c.steps, c.at_ms, c.point_values) u(step, at_ms, value)
        where c.series_id = m.series_id and m.packed_count <= ${outlineFrom}
        union all
        select p.step, p.at_ms, p.value, true from tracker_metric_points p where p.series_id = m.series_id
      ) candidate
      where ${within ? sql`step between ${within.from} and ${within.to}` : sql`true`}
    ) c
    where m.tenant_id = ${tenantId} and m.run_id = ${runId}
      and ${keys === null ? sql`true` : sql`m.key = any(${keys}::text[])`}
    order by m.key`.execute(tx)
  // JSON knows no NaN and no infinity; PostgreSQL writes them as texts that Number reads.
  return result.rows.map(({ pointValues, ...row }) => ({ ...row, values: pointValues.map(Number) }))
}

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
  return curveOf(series, most).map(({ step, ts, value }) => ({ step, timestampMs: ts, value }))
}

/** The curve of a series: what was read of it, evenly thinned out. */
export function curveOf({ total, loose, steps, times, values }: SeriesCandidates, maxPoints: number): SeriesPoint[] {
  const found = steps.map((step, place) => ({ step, value: values[place]!, ts: times[place]! }))
  const tail = found.length - loose
  // Where the older points are outlines, the newest must not weigh more than they do.
  const even = found.length < total ? [...found.slice(0, tail), ...outline(found.slice(tail))] : found
  return downsample(even, maxPoints)
}
