import { Type } from 'typebox'
import type { TenantCtx } from '../../platform/context.ts'
import { tenant } from '../../platform/http/access.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { rangeMs, stepMs } from '../../platform/http/windows.ts'
import { named, nullable, timestamp } from '../../platform/schema.ts'
import { read } from '../../platform/transaction.ts'
import { EndpointParams } from './endpoints.schema.ts'
import { loadSituation } from './endpoints.service.ts'
import { latencyClassCount, latencyQuantileMs } from './latency-classes.ts'
import { readyOf } from './replica-plan.ts'
import { sumTraffic, type TrafficPoint } from './traffic.store.ts'
import { bucketSeconds, type TrafficRecorder } from './traffic-recorder.ts'

const latency = (what: string) => nullable(Type.Number({ description: `${what} latency in milliseconds.` }))

const rates = {
  requests: Type.Integer({ minimum: 0, description: 'Requests answered.' }),
  rps: Type.Number({ minimum: 0, description: 'Requests per second.' }),
  error_rate: Type.Number({ minimum: 0, maximum: 1, description: 'Share of answers with status 5xx.' }),
  p50_ms: latency('Median'),
  p95_ms: latency('95th percentile of the'),
  p99_ms: latency('99th percentile of the'),
}

const EndpointMetrics = named('EndpointMetrics', {
  endpoint: Type.String({ description: 'Name of the endpoint.' }),
  range_seconds: Type.Number({ description: 'Window that the numbers are of, until now.' }),
  step_seconds: Type.Number({ description: 'Length of an interval of the history.' }),
  ...rates,
  in_flight: Type.Integer({ minimum: 0, description: 'Requests under way in the server that answers this.' }),
  ready_replicas: Type.Integer({ minimum: 0, description: 'Replicas that take requests.' }),
  history: Type.Array(named('EndpointMetricsPoint', { t: timestamp('Beginning of the interval.'), ...rates }), {
    description: 'Oldest first, without gaps.',
  }),
})

const Share = named('StatusShare', {
  count: Type.Integer({ minimum: 0, description: 'Answers of this class.' }),
  ratio: Type.Number({ minimum: 0, maximum: 1, description: 'Their share of all.' }),
})

const StatusCodes = named('EndpointStatusCodes', {
  endpoint: Type.String({ description: 'Name of the endpoint.' }),
  range_seconds: Type.Number({ description: 'Window that the numbers are of, until now.' }),
  total: Type.Integer({ minimum: 0, description: 'Answers in all.' }),
  '2xx': Share,
  '3xx': Share,
  '4xx': Share,
  '5xx': Share,
})

const range = Type.Optional(
  Type.String({ maxLength: 32, description: 'Window such as 30m, 1h or 7d; 1h when absent.' }),
)
const step = Type.Optional(
  Type.String({ maxLength: 32, description: 'Seconds or a duration; by the window when absent.' }),
)

/** @source service §4.6, contract SV-09, SV-10 */
export const trafficRoutes = (traffic: TrafficRecorder): Operation[] => [
  operation({
    id: 'serving.getEndpointMetrics',
    method: 'GET',
    path: '/api/v1/serving/endpoints/{name}/metrics',
    summary: 'Rate, errors and latency of what passed the proxy, now and over time.',
    access: tenant('VIEW'),
    params: EndpointParams,
    query: Type.Object({ range, step }),
    responses: { 200: EndpointMetrics },
    handler: async (ctx, { params, query }) => {
      const windowMs = rangeMs(query.range, '1h')
      // Nothing finer than a bucket is known.
      const interval = Math.max(bucketSeconds * 1000, stepMs(query.step, windowMs))
      const { endpoint, replicas, points, from } = await trafficOf(ctx, traffic, params.name, windowMs, interval)
      return {
        endpoint: endpoint.name,
        range_seconds: windowMs / 1000,
        step_seconds: interval / 1000,
        ...ratesOf(points, windowMs),
        in_flight: traffic.inFlight(endpoint.id),
        ready_replicas: readyOf(replicas),
        history: historyOf(points, from, windowMs, interval),
      }
    },
  }),
  operation({
    id: 'serving.getEndpointStatusCodes',
    method: 'GET',
    path: '/api/v1/serving/endpoints/{name}/status-codes',
    summary: 'Answers by class of status.',
    access: tenant('VIEW'),
    params: EndpointParams,
    query: Type.Object({ range }),
    responses: { 200: StatusCodes },
    handler: async (ctx, { params, query }) => {
      const windowMs = rangeMs(query.range, '1h')
      const { endpoint, points } = await trafficOf(ctx, traffic, params.name, windowMs, windowMs)
      const counts = countsOf(points)
      const total = counts.reduce((sum, count) => sum + count, 0)
      const shares = counts.map((count) => ({ count, ratio: total === 0 ? 0 : count / total }))
      const classes = Object.fromEntries(shares.map((share, at) => [`${at + 2}xx`, share]))
      return { endpoint: endpoint.name, range_seconds: windowMs / 1000, total, ...classes }
    },
  }),
]

async function trafficOf(ctx: TenantCtx, traffic: TrafficRecorder, name: string, windowMs: number, interval: number) {
  await traffic.flush(ctx)
  const now = ctx.clock.now().getTime()
  // Whole buckets: the one that is being filled belongs to the window, so the oldest does not.
  const bucketMs = bucketSeconds * 1000
  const from = new Date(Math.floor((now - windowMs) / bucketMs + 1) * bucketMs)
  return read(ctx, async (tx) => {
    const situation = await loadSituation(tx, ctx, name)
    return { ...situation, from, points: await sumTraffic(tx, situation.endpoint, from, interval) }
  })
}

function countsOf(points: TrafficPoint[]): number[] {
  return [0, 1, 2, 3].map((at) => points.reduce((sum, { counts }) => sum + counts[at]!, 0))
}

function ratesOf(points: TrafficPoint[], lengthMs: number) {
  const counts = countsOf(points)
  const requests = counts.reduce((sum, count) => sum + count, 0)
  const latencies = Array.from({ length: latencyClassCount }, (_, at) =>
    points.reduce((sum, point) => sum + (point.latencies[at] ?? 0), 0),
  )
  return {
    requests,
    rps: requests / (lengthMs / 1000),
    error_rate: requests === 0 ? 0 : counts[3]! / requests,
    p50_ms: latencyQuantileMs(latencies, 0.5),
    p95_ms: latencyQuantileMs(latencies, 0.95),
    p99_ms: latencyQuantileMs(latencies, 0.99),
  }
}

function historyOf(points: TrafficPoint[], from: Date, windowMs: number, interval: number) {
  const known = new Map(points.map((point) => [point.at.getTime(), point]))
  return Array.from({ length: Math.ceil(windowMs / interval) }, (_, at) => {
    const t = from.getTime() + at * interval
    const point = known.get(t)
    return { t: new Date(t).toISOString(), ...ratesOf(point ? [point] : [], interval) }
  })
}
