import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { Services, TenantRef } from '../../platform/context.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { latencyClass, latencyClassCount } from './latency-classes.ts'
import type { Route } from './route-table.ts'
import { addTraffic, type TrafficBucket } from './traffic.store.ts'

/** Length of the buckets that the newest history is kept in. */
export const bucketSeconds = 15
const flushEveryMs = 5000

/** Counts what passes the proxy of this process. */
export interface TrafficRecorder {
  /** A request begins; call what it returns with the status when its answer has ended. */
  begin(tenant: TenantRef, route: Route): (status: number) => void
  /** Requests that are under way here. */
  inFlight(endpointId: string): number
  /** Writes down what was counted since the last time. */
  flush(services: Pick<Services, 'db'>): Promise<void>
  /** Does that again and again, until the function it returns is called: that does it one last time. */
  start(services: Services): () => Promise<void>
  /** Shows the counts to Prometheus. */
  register(registry: Registry): void
}

export function trafficRecorder(): TrafficRecorder {
  let pending = new Map<string, TrafficBucket>()
  let writing: Promise<void> = Promise.resolve()
  const inFlight = new Map<string, number>()
  const prometheus = prometheusTraffic()

  const bucketOf = (tenantId: string, endpointId: string): TrafficBucket => {
    const at = Math.floor(Date.now() / 1000 / bucketSeconds) * bucketSeconds
    const key = `${endpointId}/${at}`
    const bucket = pending.get(key) ?? emptyBucket(tenantId, endpointId, at)
    pending.set(key, bucket)
    return bucket
  }
  const write = async ({ db }: Pick<Services, 'db'>) => {
    const buckets = [...pending.values()]
    if (buckets.length === 0) return
    pending = new Map()
    try {
      await transaction(db, 'system', (tx) => addTraffic(tx, buckets))
    } catch (error) {
      for (const bucket of buckets) merge(pending, bucket)
      throw error
    }
  }
  const flush = (services: Pick<Services, 'db'>) => {
    writing = writing.catch(() => undefined).then(() => write(services))
    return writing
  }

  return {
    begin(tenant, { endpoint }) {
      const started = performance.now()
      inFlight.set(endpoint.id, (inFlight.get(endpoint.id) ?? 0) + 1)
      prometheus.inFlight.inc({ tenant: tenant.code, endpoint: endpoint.name })
      return (status) => {
        const milliseconds = performance.now() - started
        const left = (inFlight.get(endpoint.id) ?? 1) - 1
        if (left > 0) inFlight.set(endpoint.id, left)
        else inFlight.delete(endpoint.id)
        count(bucketOf(tenant.id, endpoint.id), status, milliseconds)
        prometheus.observe({ tenant: tenant.code, endpoint: endpoint.name }, status, milliseconds / 1000)
      }
    },
    inFlight: (endpointId) => inFlight.get(endpointId) ?? 0,
    flush,
    start(services) {
      const tick = () =>
        flush(services).catch((error) => services.log.warn({ err: error }, 'serving: traffic could not be written'))
      const timer = setInterval(() => void tick(), flushEveryMs).unref()
      return () => {
        clearInterval(timer)
        return flush(services)
      }
    },
    register: prometheus.register,
  }
}

const emptyBucket = (tenantId: string, endpointId: string, at: number): TrafficBucket => ({
  tenantId,
  endpointId,
  bucketAt: new Date(at * 1000),
  bucketSeconds,
  counts: [0, 0, 0, 0],
  durationSeconds: 0,
  latencies: Array.from({ length: latencyClassCount }, () => 0),
})

function count(bucket: TrafficBucket, status: number, milliseconds: number): void {
  const at = Math.min(3, Math.max(0, Math.floor(status / 100) - 2))
  bucket.counts[at] = bucket.counts[at]! + 1
  bucket.durationSeconds += milliseconds / 1000
  const latency = latencyClass(milliseconds)
  bucket.latencies[latency] = bucket.latencies[latency]! + 1
}

/** What could not be written is added to what came in the meantime. */
function merge(pending: Map<string, TrafficBucket>, bucket: TrafficBucket): void {
  const key = `${bucket.endpointId}/${bucket.bucketAt.getTime() / 1000}`
  const present = pending.get(key)
  if (!present) return void pending.set(key, bucket)
  for (const [at, value] of bucket.counts.entries()) present.counts[at]! += value
  for (const [at, value] of bucket.latencies.entries()) present.latencies[at]! += value
  present.durationSeconds += bucket.durationSeconds
}

function prometheusTraffic() {
  const labelNames = ['tenant', 'endpoint'] as const
  type Labels = Record<(typeof labelNames)[number], string>
  const requests = new Counter({
    name: 'platform_mlops_inference_requests_total',
    help: 'Inference requests answered, by status.',
    labelNames: [...labelNames, 'code'],
    registers: [],
  })
  const duration = new Histogram({
    name: 'platform_mlops_inference_request_duration_seconds',
    help: 'Time from the request at the proxy to the end of its answer.',
    labelNames,
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
    registers: [],
  })
  const inFlight = new Gauge({
    name: 'platform_mlops_inference_requests_in_flight',
    help: 'Inference requests that are being answered.',
    labelNames,
    registers: [],
  })
  return {
    inFlight,
    observe(labels: Labels, status: number, seconds: number) {
      inFlight.dec(labels)
      requests.inc({ ...labels, code: String(status) })
      duration.observe(labels, seconds)
    },
    register(registry: Registry) {
      for (const metric of [requests, duration, inFlight]) registry.registerMetric(metric)
    },
  }
}
