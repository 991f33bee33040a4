import { Counter, collectDefaultMetrics, Histogram, Registry } from 'prom-client'

/** What the platform measures of itself, for GET /metrics. */
export interface HttpMetrics {
  registry: Registry
  observe(operation: string, method: string, status: number, seconds: number): void
}

export function createMetrics(): HttpMetrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry, prefix: 'platform_mlops_' })
  const labelNames = ['operation', 'method', 'status'] as const
  const requests = new Counter({
    name: 'platform_mlops_http_requests_total',
    help: 'Answered requests.',
    labelNames,
    registers: [registry],
  })
  const duration = new Histogram({
    name: 'platform_mlops_http_request_duration_seconds',
    help: 'Time from the request line to the last byte of the answer.',
    labelNames: ['operation'],
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers: [registry],
  })
  return {
    registry,
    observe(operation, method, status, seconds) {
      requests.inc({ operation, method, status: String(status) })
      duration.observe({ operation }, seconds)
    },
  }
}
