import { clientClosed, Fault, unavailable } from './faults.ts'
import type { Metrics } from './metrics.ts'
import type { Model } from './model-folder.ts'
import { createThreadPool, ThreadLost } from './thread-pool.ts'
import { ownMemory } from './thread-tasks.ts'

/** One image: 8-bit RGB rows of the input size, or a preprocessed [3][height][width] tensor. */
export type Sample = Uint8Array | Float32Array

/** Runs the model on worker threads; images of concurrent requests share batches. */
export type Engine = {
  started: Promise<void>
  ready(): boolean
  /** Logits for each sample, in order. Aborted samples still waiting are dropped. */
  infer(samples: Sample[], signal: AbortSignal): Promise<Float32Array[]>
  close(): Promise<void>
}

export type EngineOptions = { workers: number; maxBatch: number; batchWaitMs: number }

type Waiting = {
  sample: Sample
  queuedAt: number
  signal: AbortSignal
  resolve: (logits: Float32Array) => void
  reject: (error: Error) => void
}

export function createEngine(model: Model, options: EngineOptions, metrics: Metrics): Engine {
  const waiting: Waiting[] = []
  const maxBatch = model.input.batched ? options.maxBatch : 1
  let timer: NodeJS.Timeout | undefined
  const pool = createThreadPool<Sample[], Float32Array>({
    file: new URL('./engine.worker.ts', import.meta.url),
    size: options.workers,
    workerData: { model, maxBatch },
    onChange: dispatch,
    onThreadLost: () => metrics.threadsLost.inc({ kind: 'inference' }),
  })

  /** An idle server starts at once; a busy one lets the oldest image wait a little for company. */
  function waitLeftMs(oldest: Waiting): number {
    const isIdle = pool.idle() === pool.size
    if (isIdle || waiting.length >= maxBatch) return 0
    return oldest.queuedAt + options.batchWaitMs - performance.now()
  }

  function dispatch(): void {
    clearTimeout(timer)
    if (pool.lost()) for (const item of waiting.splice(0)) item.reject(unavailable('no inference worker is running'))
    const [oldest] = waiting
    const leftMs = oldest && pool.idle() > 0 ? waitLeftMs(oldest) : 0
    if (leftMs > 0) timer = setTimeout(dispatch, leftMs)
    else while (waiting.length > 0 && pool.idle() > 0) startBatch()
    metrics.queuedImages.set(waiting.length)
  }

  /** Shares what waits among the free workers. */
  function startBatch(): void {
    const share = Math.ceil(waiting.length / pool.idle())
    const next = waiting.splice(0, Math.min(maxBatch, share))
    const { wanted = [], dropped = [] } = Object.groupBy(next, (item) => (item.signal.aborted ? 'dropped' : 'wanted'))
    for (const item of dropped) item.reject(clientClosed())
    if (wanted.length > 0) void run(wanted)
  }

  async function run(batch: Waiting[]): Promise<void> {
    metrics.batchSize.observe(batch.length)
    const startedAt = performance.now()
    try {
      const samples = batch.map((item) => ownMemory(item.sample))
      const logits = await pool.run(samples, [...new Set(samples.map((sample) => sample.buffer as ArrayBuffer))])
      const size = model.classes.length
      for (const [index, item] of batch.entries()) {
        const row = logits.subarray(index * size, (index + 1) * size)
        if (row.every(Number.isFinite)) item.resolve(row)
        else item.reject(new Fault(500, 'the model answered values that are not finite numbers'))
      }
    } catch (error) {
      const fault =
        error instanceof ThreadLost
          ? new Fault(500, 'the inference worker died during this request')
          : new Fault(500, `inference failed: ${(error as Error).message}`)
      for (const item of batch) item.reject(fault)
    }
    metrics.batchSeconds.observe((performance.now() - startedAt) / 1000)
  }

  function enqueue(sample: Sample, signal: AbortSignal): Promise<Float32Array> {
    return new Promise((resolve, reject) => {
      waiting.push({ sample, queuedAt: performance.now(), signal, resolve, reject })
    })
  }

  return {
    started: pool.started,
    ready: pool.ready,
    close: pool.close,
    infer: (samples, signal) => {
      const answers = Promise.all(samples.map((sample) => enqueue(sample, signal)))
      dispatch()
      return answers
    },
  }
}
