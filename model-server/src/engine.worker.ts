import { workerData } from 'node:worker_threads'
import { InferenceSession, Tensor } from 'onnxruntime-node'
import type { Sample } from './engine.ts'
import type { Model } from './model-folder.ts'
import { ownMemory, serveTasks } from './thread-tasks.ts'

const { model, maxBatch } = workerData as { model: Model; maxBatch: number }
const { name, width, height } = model.input
const planeSize = width * height
const sampleSize = planeSize * 3
const batch = new Float32Array(maxBatch * sampleSize)

/** (pixel / 255 - mean) / std for each byte, one table a channel. */
const normalized = model.mean.map((mean, channel) =>
  Float32Array.from({ length: 256 }, (_, byte) => (byte / 255 - mean) / model.std[channel]!),
)

// More threads inside one run make it erratic on small machines; the pool's threads use the cores instead.
const session = await InferenceSession.create(model.onnxFile, { intraOpNumThreads: 1, interOpNumThreads: 1 })
for (const [kind, names, wanted] of [
  ['input', session.inputNames, name],
  ['output', session.outputNames, model.output.name],
] as const) {
  if (!names.includes(wanted)) throw new Error(`model.onnx has no ${kind} '${wanted}', only ${names.join(', ')}`)
}

function fillSlot(slot: number, sample: Sample): void {
  const start = slot * sampleSize
  if (sample instanceof Float32Array) {
    batch.set(sample, start)
    return
  }
  for (let channel = 0; channel < 3; channel += 1) {
    const table = normalized[channel]!
    const plane = start + channel * planeSize
    for (let pixel = 0; pixel < planeSize; pixel += 1) batch[plane + pixel] = table[sample[pixel * 3 + channel]!]!
  }
}

async function runBatch(samples: Sample[]): Promise<Float32Array> {
  for (const [slot, sample] of samples.entries()) fillSlot(slot, sample)
  const input = new Tensor('float32', batch.subarray(0, samples.length * sampleSize), [
    samples.length,
    3,
    height,
    width,
  ])
  const { [model.output.name]: output } = await session.run({ [name]: input }, [model.output.name])
  const expected = samples.length * model.classes.length
  if (!(output?.data instanceof Float32Array) || output.data.length !== expected) {
    throw new Error(`model.onnx answered ${output?.type} [${output?.dims}] instead of ${expected} float32 values`)
  }
  return ownMemory(output.data)
}

await runBatch([new Uint8Array(sampleSize)])

serveTasks<Sample[], Float32Array>(async (samples) => {
  const logits = await runBatch(samples)
  return [logits, [logits.buffer as ArrayBuffer]]
})
