/**
 * How much of the model's own speed a client of the model server gets.
 * The named limit is a bare `session.run` loop of the same model without HTTP, images or batching: for one connection
 * in one process with one image a run, for many in one process a core, with each its share of the images in a run.
 * Usage: node bench/model-server.ts (about 20 seconds)
 */
import { execFile } from 'node:child_process'
import { Agent, request } from 'node:http'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { InferenceSession, Tensor } from 'onnxruntime-node'
import sharp from 'sharp'
import { convolutionGraph, writeModelFolder } from '../model-server/test/model-folders.ts'
import { startServer } from '../model-server/test/server-process.ts'

const size = 64
const runMs = 2_000
const warmupMs = 500
const cores = availableParallelism()
const many = 8

type Body = { name: string; path: string; headers: Record<string, string>; bytes: Buffer }
type Load = { perSecond: number; p50: number; p95: number; p99: number }

/** Images a second of `session.run` alone, in this process. */
async function bareLoop(modelFile: string, batch: number): Promise<number> {
  const session = await InferenceSession.create(modelFile, { intraOpNumThreads: 1, interOpNumThreads: 1 })
  const images = new Tensor('float32', new Float32Array(batch * 3 * size * size).fill(0.5), [batch, 3, size, size])
  const runFor = async (ms: number): Promise<number> => {
    const startedAt = performance.now()
    let runs = 0
    for (; performance.now() - startedAt < ms; runs += 1) await session.run({ images })
    return (runs * batch * 1000) / (performance.now() - startedAt)
  }
  await runFor(warmupMs)
  return runFor(runMs / 2)
}

/** The same in `processes` processes at once, summed. */
async function bare(modelFile: string, batch: number, processes: number): Promise<number> {
  const args = [fileURLToPath(import.meta.url), '--bare', modelFile, String(batch)]
  const runs = Array.from({ length: processes }, () => promisify(execFile)(process.execPath, args))
  return (await Promise.all(runs)).reduce((sum, { stdout }) => sum + Number(stdout), 0)
}

async function load(url: string, body: Body, connections: number): Promise<Load> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const send = async (): Promise<void> => {
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>()
    const sent = request(url + body.path, { method: 'POST', agent, headers: body.headers }, async (response) => {
      await buffer(response)
      resolve(response.statusCode)
    })
    sent.on('error', reject)
    sent.end(body.bytes)
    const status = await promise
    if (status !== 200) throw new Error(`${body.path} answered ${status}`)
  }
  const runFor = async (ms: number): Promise<number[]> => {
    const latencies: number[] = []
    const endsAt = performance.now() + ms
    const client = async (): Promise<void> => {
      for (let startedAt = performance.now(); startedAt < endsAt; startedAt = performance.now()) {
        await send()
        latencies.push(performance.now() - startedAt)
      }
    }
    await Promise.all(Array.from({ length: connections }, client))
    return latencies.sort((left, right) => left - right)
  }
  await runFor(warmupMs)
  const startedAt = performance.now()
  const latencies = await runFor(runMs)
  const perSecond = (latencies.length * 1000) / (performance.now() - startedAt)
  agent.destroy()
  const percentile = (share: number): number => latencies[Math.floor((latencies.length - 1) * share)]!
  return { perSecond, p50: percentile(0.5), p95: percentile(0.95), p99: percentile(0.99) }
}

async function bodies(): Promise<Body[]> {
  const noise = { type: 'gaussian', mean: 128, sigma: 30 } as const
  const picture = sharp({ create: { width: 224, height: 224, channels: 3, background: 'black', noise } })
  const floats = Buffer.from(new Float32Array(3 * size * size).fill(0.5).buffer)
  const parameters = { binary_data_size: floats.length }
  const tensor = { name: 'images', datatype: 'FP32', shape: [1, 3, size, size], parameters }
  const head = Buffer.from(JSON.stringify({ inputs: [tensor] }))
  return [
    {
      name: 'v2 infer, binary tensor',
      path: '/v2/models/model/infer',
      headers: { 'inference-header-content-length': String(head.length) },
      bytes: Buffer.concat([head, floats]),
    },
    {
      name: 'invocations, 224 px JPEG',
      path: '/invocations',
      headers: { 'content-type': 'image/jpeg' },
      bytes: await picture.jpeg().toBuffer(),
    },
  ]
}

async function main(): Promise<void> {
  const graph = convolutionGraph({ size, width: 48, layers: 4, classes: 12 })
  const folder = await writeModelFolder(
    graph,
    Array.from({ length: 12 }, (_, index) => `class ${index}`),
  )
  const server = await startServer(folder, { WORKERS: String(cores) })
  const batchTotals = () =>
    Promise.all(['sum', 'count'].map((part) => server.metric(`model_server_batch_size_${part}`)))
  for (const body of await bodies()) {
    for (const connections of [1, many]) {
      // Measured beside each load, not once: other work on the machine changes both alike.
      const share = Math.ceil(connections / cores)
      const limit = await bare(join(folder, 'model.onnx'), share, Math.min(cores, connections))
      const before = await batchTotals()
      const { perSecond, p50, p95, p99 } = await load(server.url, body, connections)
      const [images, batches] = (await batchTotals()).map((total, index) => total - before[index]!)
      const latency = [p50, p95, p99].map((ms) => ms.toFixed(1)).join(' / ')
      console.log(`${body.name}, connections: ${connections}`)
      console.log(
        `  ${perSecond.toFixed(0)} requests/s, p50/p95/p99 ${latency} ms, ${(images! / batches!).toFixed(1)} images a batch`,
      )
      console.log(
        `  ${(perSecond / limit).toFixed(2)} of bare session.run (${limit.toFixed(0)} images/s, ${share} a run)`,
      )
    }
  }
  const residentBytes = await server.metric('process_resident_memory_bytes')
  console.log(`resident ${(residentBytes / 1024 ** 2).toFixed(0)} MiB`)
  await server.stop()
}

const [mode, modelFile = '', batch] = process.argv.slice(2)
if (mode === '--bare') console.log(await bareLoop(modelFile, Number(batch)))
else await main()
