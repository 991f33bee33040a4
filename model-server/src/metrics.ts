import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

/** Every number the server publishes at GET /metrics. */
export type Metrics = ReturnType<typeof createMetrics>

const latencyBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

export function createMetrics() {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  return {
    registry,
    requests: new Counter({
      name: 'model_server_requests_total',
      help: 'Requests answered, by route template and status',
      labelNames: ['route', 'status'] as const,
      registers,
    }),
    requestSeconds: new Histogram({
      name: 'model_server_request_duration_seconds',
      help: 'Time from the request headers to the end of the answer',
      labelNames: ['route'] as const,
      buckets: latencyBuckets,
      registers,
    }),
    requestsInFlight: new Gauge({
      name: 'model_server_requests_in_flight',
      help: 'Requests being received or answered',
      registers,
    }),
    batchSize: new Histogram({
      name: 'model_server_batch_size',
      help: 'Images run through the model together',
      buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
      registers,
    }),
    batchSeconds: new Histogram({
      name: 'model_server_batch_duration_seconds',
      help: 'Time of one batch on an inference worker',
      buckets: latencyBuckets,
      registers,
    }),
    queuedImages: new Gauge({
      name: 'model_server_queue_images',
      help: 'Decoded images waiting for an inference worker',
      registers,
    }),
    threadsLost: new Counter({
      name: 'model_server_threads_lost_total',
      help: 'Worker threads that died and were replaced',
      labelNames: ['kind'] as const,
      registers,
    }),
    modelInfo: new Gauge({
      name: 'model_server_model_info',
      help: 'Always 1; the labels say which model is loaded',
      labelNames: ['name', 'version', 'framework', 'architecture'] as const,
      registers,
    }),
  }
}
