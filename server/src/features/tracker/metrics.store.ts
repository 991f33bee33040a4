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

/**
 * Appends points and keeps the last value per key, in one statement. A point that is there already is left out: clients
 * send a batch again when its answer was lost.
 */
export async function insertMetrics(tx: Tx, tenantId: string, runId: string, points: MetricPoint[]): Promise<void> {
  if (points.length === 0) return
  const keys = points.map((point) => point.key)
  const steps = points.map((point) => point.step)
  const times = points.map((point) => point.timestampMs)
  const values = points.map((point) => point.value)
  const result = await sql<{ seriesId: number; looseCount: number }>`
    with given as (
      select * from unnest(${keys}::text[], ${steps}::bigint[], ${times}::bigint[], ${values}::float8[])
        as g(key, step, at_ms, value)
    ),
    last as (
      select distinct on (key) key, step, at_ms, value, count(*) over (partition by key) as points
      from given order by key, step desc, at_ms desc, value desc
    ),
    series as (
      insert into tracker_metrics as m (run_id, tenant_id, key, step, at_ms, value, loose_count)
      select ${runId}::uuid, ${tenantId}::uuid, key, step, at_ms, value, points from last order by key
      on conflict (run_id, key) do update set
        (step, at_ms, value) = (
          select * from (values (m.step, m.at_ms, m.value), (excluded.step, excluded.at_ms, excluded.value))
            as candidate(step, at_ms, value)
          order by step desc, at_ms desc, value desc limit 1
        ),
        loose_count = m.loose_count + excluded.loose_count
      returning key, series_id, loose_count
    ),
    loose as (
      insert into tracker_metric_points (series_id, tenant_id, step, at_ms, value)
      select s.series_id, ${tenantId}::uuid, g.step, g.at_ms, g.value from given g join series s using (key)
      on conflict do nothing
    )
    select series_id, loose_count from series where loose_count >= ${packFrom}`.execute(tx)
  for (const { seriesId } of result.rows) await packSeries(tx, seriesId)
}

/** Moves the oldest loose points of a series into full chunks. The caller holds the series' row. */
async function packSeries(tx: Tx, seriesId: number): Promise<void> {
  await sql`
    with ordered as (
      select step, at_ms, value, row_number() over (order by step, at_ms, value) - 1 as place, count(*) over () as total
      from tracker_metric_points where series_id = ${seriesId}
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
        array_agg(value order by place) as point_values, any_value(tenant_id) as tenant_id
      from taken, (select tenant_id from tracker_metrics where series_id = ${seriesId}) owner
      group by part
    ),
    written as (
      insert into tracker_metric_chunks
        (series_id, chunk, tenant_id, outline_steps, outline_at_ms, outline_values, steps, at_ms, point_values)
      select ${seriesId}, part + (
          select coalesce(max(chunk) + 1, 0) from tracker_metric_chunks where series_id = ${seriesId}
        ), tenant_id, o.steps, o.at_ms, o.point_values, p.steps, p.at_ms, p.point_values
      from packed p join outline o using (part)
    ),
    removed as (
      delete from tracker_metric_points p using taken t
      where p.series_id = ${seriesId} and p.step = t.step and p.at_ms = t.at_ms and p.value = t.value
    )
    update tracker_metrics set
      packed_count = packed_count + (select count(*) from taken),
      loose_count = (select count(*) from ordered) - (select count(*) from taken)
    where series_id = ${seriesId}`.execute(tx)
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
