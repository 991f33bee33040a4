import type { Engine, Sample } from './engine.ts'
import { badRequest, clientClosed, unavailable } from './faults.ts'
import type { ImageDecoder } from './image-decoder.ts'
import type { Model } from './model-folder.ts'

/** One image as the client sent it; `where` is its place in the request, for messages. */
export type Source = { where: string; value: EncodedImage | Float32Array }
/** Decoding base64 is left until a decoder is free, so that a request is not held in memory twice. */
export type EncodedImage = { bytes(): Uint8Array }

/** What both protocols answer from: images in, logits out. */
export type Predictor = {
  /** Whether the model is loaded and workers are running. */
  ready(): boolean
  /** Logits for each source. Faults: 400 names a bad source, 503 when too much work waits. */
  predict(sources: Source[], signal: AbortSignal): Promise<Float32Array[]>
}

export type PredictorLimits = { maxInstances: number; maxPendingImages: number; decoderThreads: number }

export function createPredictor(engine: Engine, decoder: ImageDecoder, limits: PredictorLimits): Predictor {
  let pendingImages = 0
  const isReady = (): boolean => engine.ready() && decoder.ready()

  const sampleOf = ({ value, where }: Source): Sample | Promise<Sample> =>
    value instanceof Float32Array ? value : decoder.decode(value.bytes(), where)

  return {
    ready: isReady,
    predict: async (sources, signal) => {
      if (!isReady()) throw unavailable('the model is not loaded yet')
      if (sources.length === 0) throw badRequest('the request holds no instance')
      if (sources.length > limits.maxInstances) {
        throw badRequest(`the request holds ${sources.length} instances, at most ${limits.maxInstances} are allowed`)
      }
      if (pendingImages > 0 && pendingImages + sources.length > limits.maxPendingImages) {
        throw unavailable(`${pendingImages} images are already waiting`)
      }
      pendingImages += sources.length
      try {
        const samples = await mapInLanes(sources, limits.decoderThreads, signal, sampleOf)
        return await engine.infer(samples, signal)
      } finally {
        pendingImages -= sources.length
      }
    },
  }
}

/** Maps in order with bounded concurrency; the first failure or an abort stops what has not begun. */
async function mapInLanes<From, To>(
  items: From[],
  lanes: number,
  signal: AbortSignal,
  map: (item: From) => To | Promise<To>,
): Promise<To[]> {
  const results = new Array<To>(items.length)
  const entries = items.entries()
  let failed = false
  const lane = async (): Promise<void> => {
    for (const [index, item] of entries) {
      if (failed || signal.aborted) return
      try {
        results[index] = await map(item)
      } catch (error) {
        failed = true
        throw error
      }
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  if (signal.aborted) throw clientClosed()
  return results
}

/** Probabilities of one image from its logits. */
export function probabilities(model: Model, logits: Float32Array): Float32Array {
  if (model.output.activation === 'none') return logits
  const highest = logits.reduce((max, value) => Math.max(max, value), Number.NEGATIVE_INFINITY)
  const exponents = logits.map((value) => Math.exp(value - highest))
  const sum = exponents.reduce((total, value) => total + value, 0)
  return exponents.map((value) => value / sum)
}

/** Class ids from the most to the least probable; equal scores keep the class order. */
export function ranking(scores: Float32Array): number[] {
  return Array.from(scores.keys()).sort((left, right) => scores[right]! - scores[left]!)
}
