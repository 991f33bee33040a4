import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'

/** Settings of one model server, all from the environment of its container or process. */
export type Config = {
  modelDir: string
  modelName: string
  modelVersion: string
  host: string
  /** 0 picks any free port; the choice is printed and, with `portFile`, written there. */
  port: number
  portFile: string | undefined
  workers: number
  maxBatch: number
  batchWaitMs: number
  maxBodyBytes: number
  /** Images admitted but not answered, over all requests; more is answered 503. */
  maxPendingImages: number
  maxInstances: number
  maxImagePixels: number
  shutdownGraceMs: number
}

/** Reads the configuration; throws one error that names every fault. */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  const faults: string[] = []
  const integer = (name: string, fallback: number, min: number, max: number): number => {
    const text = env[name]
    if (text === undefined || text === '') return fallback
    const value = Number(text)
    if (Number.isInteger(value) && value >= min && value <= max) return value
    faults.push(`${name} must be an integer from ${min} to ${max}, got '${text}'`)
    return fallback
  }
  const config: Config = {
    modelDir: env.MODEL_DIR || fileURLToPath(new URL('../../model', import.meta.url)),
    modelName: env.MODEL_NAME || 'model',
    modelVersion: env.MODEL_VERSION || '1',
    host: env.HOST || '127.0.0.1',
    port: integer('PORT', 8080, 0, 65_535),
    portFile: env.PORT_FILE || undefined,
    workers: integer('WORKERS', availableParallelism(), 1, 256),
    maxBatch: integer('MAX_BATCH', 32, 1, 4_096),
    batchWaitMs: integer('BATCH_WAIT_MS', 2, 0, 10_000),
    maxBodyBytes: integer('MAX_BODY_BYTES', 64 * 1024 ** 2, 1, 1024 ** 3),
    maxPendingImages: integer('MAX_PENDING_IMAGES', 1_024, 1, 1_000_000),
    maxInstances: integer('MAX_INSTANCES', 1_024, 1, 1_000_000),
    maxImagePixels: integer('MAX_IMAGE_PIXELS', 64_000_000, 1, 1_000_000_000),
    shutdownGraceMs: integer('SHUTDOWN_GRACE_MS', 30_000, 0, 3_600_000),
  }
  if (faults.length > 0) throw new Error(faults.join('; '))
  return config
}
