import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import type { EndpointRef } from './endpoints.store.ts'

export interface TrafficBucket {
  tenantId: string
  endpointId: string
  bucketAt: Date
  bucketSeconds: number
  /** Answers of status 2xx, 3xx, 4xx and 5xx. */
  counts: number[]
  /** Sum over all requests. */
  durationSeconds: number
  /** Requests per class of latency. */
  latencies: number[]
}

/** Adds to what is there already, whichever process counted it; of endpoints that are gone nothing is kept. */
export async function addTraffic(tx: Tx, buckets: TrafficBucket[]): Promise<void> {
  for (const { tenantId, endpointId, bucketAt, bucketSeconds, counts, durationSeconds, latencies } of buckets) {
    await sql`
      insert into serving_traffic as t (tenant_id, endpoint_id, bucket_at, bucket_seconds,
        count_2xx, count_3xx, count_4xx, count_5xx, duration_seconds, latencies)
      select ${tenantId}::uuid, ${endpointId}::uuid, ${bucketAt}::timestamptz, ${bucketSeconds}::int,
        ${counts[0]}::bigint, ${counts[1]}::bigint, ${counts[2]}::bigint, ${counts[3]}::bigint,
        ${durationSeconds}::float8, ${latencies}::bigint[]
      where exists (select from serving_endpoints where tenant_id = ${tenantId} and id = ${endpointId})
      on conflict (tenant_id, endpoint_id, bucket_at, bucket_seconds) do update set
        count_2xx = t.count_2xx + excluded.count_2xx,
        count_3xx = t.count_3xx + excluded.count_3xx,
        count_4xx = t.count_4xx + excluded.count_4xx,
        count_5xx = t.count_5xx + excluded.count_5xx,
        duration_seconds = t.duration_seconds + excluded.duration_seconds,
        latencies = (select array_agg(a + b order by i)
          from unnest(t.latencies, excluded.latencies) with ordinality as sums (a, b, i))`.execute(tx)
  }
}

/** Traffic of one interval: when it began, and what `TrafficBucket` counts. */
export interface TrafficPoint {
  at: Date
  counts: [number, number, number, number]
  latencies: number[]
}

/** Traffic from a time on, in intervals of `stepMs`; intervals without any are left out. */
export async function sumTraffic(
  tx: Tx,
  { tenantId, id }: EndpointRef,
  from: Date,
  stepMs: number,
): Promise<TrafficPoint[]> {
  const { rows } = await sql<{ at: Date; counts: string[]; latencies: string[] }>`
    with found as (
      select floor(extract(epoch from bucket_at - ${from}::timestamptz) * 1000 / ${stepMs}::float8)::bigint as slot, *
      from serving_traffic
      where tenant_id = ${tenantId} and endpoint_id = ${id} and bucket_at >= ${from}
    ), totals as (
      select slot, array[sum(count_2xx), sum(count_3xx), sum(count_4xx), sum(count_5xx)] as counts
      from found group by slot
    ), classes as (
      select slot, i, sum(n) as n from found, unnest(latencies) with ordinality as c (n, i) group by slot, i
    )
    select ${from}::timestamptz + make_interval(secs => totals.slot * ${stepMs}::float8 / 1000) as at,
      totals.counts as counts, array_agg(n order by i) as latencies
    from totals join classes using (slot) group by totals.slot, totals.counts order by totals.slot`.execute(tx)
  return rows.map(({ at, counts, latencies }) => ({
    at,
    counts: counts.map(Number) as TrafficPoint['counts'],
    latencies: latencies.map(Number),
  }))
}

/** Sums rows older than a time up into rows of five minutes, and drops those before another. */
export async function compactTraffic(tx: Tx, olderThan: Date, dropBefore: Date): Promise<void> {
  const seconds = 300
  await sql`delete from serving_traffic where bucket_at < ${dropBefore}`.execute(tx)
  await sql`
    with old as (
      delete from serving_traffic where bucket_at < ${olderThan} and bucket_seconds < ${seconds} returning *
    ), slots as (
      select *, to_timestamp(floor(extract(epoch from bucket_at) / ${seconds}::float8) * ${seconds}::float8) as slot
      from old
    ), totals as (
      select tenant_id, endpoint_id, slot, sum(count_2xx) as c2, sum(count_3xx) as c3, sum(count_4xx) as c4,
        sum(count_5xx) as c5, sum(duration_seconds) as d
      from slots group by tenant_id, endpoint_id, slot
    ), classes as (
      select endpoint_id, slot, array_agg(n order by i) as latencies from (
        select endpoint_id, slot, i, sum(n)::bigint as n
        from slots, unnest(latencies) with ordinality as c (n, i) group by endpoint_id, slot, i
      ) as summed group by endpoint_id, slot
    )
    insert into serving_traffic (tenant_id, endpoint_id, bucket_at, bucket_seconds,
      count_2xx, count_3xx, count_4xx, count_5xx, duration_seconds, latencies)
    select tenant_id, endpoint_id, slot, ${seconds}, c2, c3, c4, c5, d, latencies
    from totals join classes using (endpoint_id, slot)
    on conflict do nothing`.execute(tx)
}
