/**
 * The tracker against the stock MLflow server from PyPI: the same requests from 20 connections, each server on a
 * PostgreSQL of its own of the same kind, one after the other on this machine; large files in alternating rounds, each on
 * a disk that has written everything before it. The platform answers an upload when it is on the disk, the peer does not
 * wait for that.
 *
 *     node bench/tracker.ts [seconds per figure, 8 when absent; 0 for large files alone] [MiB of the large file, 1024]
 *
 * Installs MLflow into an environment of its own at the first run (minutes). Ends with 1 when a target is missed.
 */
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { load, sendOnce } from './http-load.fixture.ts'
import { fillMlflow, fillOurs } from './tracker-runs.fixture.ts'
import { startMlflow, startOurs, type TrackerServer } from './tracker-servers.fixture.ts'

const seconds = Number(process.argv[2] ?? 8)
const connections = 20
const artifactBytes = Number(process.argv[3] ?? 1024) * 2 ** 20
const rounds = 3

type Figures = Record<string, number>

// biome-ignore lint/suspicious/noExplicitAny: a benchmark looks into answers of every shape
type Post = (path: string, body: object) => Promise<any>

/** JSON in and out, on a connection of its own: servers close those that were idle. */
const poster =
  (server: TrackerServer): Post =>
  async (path, body) => {
    const request = { method: 'POST', path: `${server.prefix}/api/2.0/mlflow${path}`, body: JSON.stringify(body) }
    return JSON.parse(await sendOnce(server, request))
  }

/** The figures of one server; rates per second, times in ms, speeds in MiB/s. */
async function measure(server: TrackerServer, fill: (server: TrackerServer, runs: number) => Promise<string>) {
  if (seconds === 0) return {}
  const figures: Figures = {}
  const api = `${server.prefix}/api/2.0/mlflow`
  const post = poster(server)
  const runs: string[] = []
  for (let i = 0; i < connections; i++) runs.push((await post('/runs/create', { experiment_id: '0' })).run.info.run_id)
  const rate = async (path: string, body: (count: number) => object) => {
    const next = (count: number) => ({ method: 'POST', path: api + path, body: JSON.stringify(body(count)) })
    const options = { port: server.port, headers: server.headers, connections, next }
    await load({ ...options, seconds: Math.min(2, seconds) })
    return (await load({ ...options, seconds })).perSecond
  }
  let written = 0
  const run = () => runs[written++ % connections]!
  figures['create run'] = await rate('/runs/create', () => ({ experiment_id: '0', start_time: Date.now() }))
  figures['log parameter'] = await rate('/runs/log-parameter', () => ({
    run_id: run(),
    key: `p${written}`,
    value: 'v',
  }))
  figures['log metric'] = await rate('/runs/log-metric', () => point(run(), 'm', written))
  figures['log batch of 10 metrics'] = await rate('/runs/log-batch', () => {
    const run_id = run()
    return { run_id, metrics: Array.from({ length: 10 }, (_, i) => point('', `m${i}`, written)) }
  })
  const experiment = await fill(server, 10_000)
  figures['searches of 10,000 runs'] = await rate('/runs/search', () => bestRuns(experiment))
  figures['search 10,000 runs'] = await searchTime(post, experiment)
  console.log(`${server.name} measured`)
  return figures
}

const point = (run_id: string, key: string, step: number) => ({
  run_id,
  key,
  value: Math.sin(step),
  timestamp: 1e12 + step,
  step,
})

/** The first page of the runs above a metric, the best first. */
const bestRuns = (experiment: string) => ({
  experiment_ids: [experiment],
  filter: 'metrics.m1 > 0.5',
  order_by: ['metrics.m0 DESC'],
  max_results: 100,
})

/** Median of a search by one client alone. */
async function searchTime(post: Post, experiment: string) {
  const times: number[] = []
  for (let i = 0; i < 9; i++) {
    const start = performance.now()
    const { runs } = await post('/runs/search', bestRuns(experiment))
    times.push(performance.now() - start)
    if (runs.length !== 100) throw new Error(`the search gave ${runs.length} runs`)
  }
  return times.sort((a, b) => a - b)[4]!
}

/** Medians of uploads and downloads of one large file that is new each time, and what they cost. */
async function transfers(servers: TrackerServer[]): Promise<Figures[]> {
  const file = join(import.meta.dirname, '.large.bin')
  const results = servers.map(() => ({
    up: [] as number[],
    down: [] as number[],
    processor: [] as number[],
    memory: 0,
  }))
  try {
    for (let round = 0; round < rounds; round++) {
      const order = round % 2 ? servers : servers.toReversed()
      for (const server of order) {
        await writeLargeFile(file)
        const result = results[servers.indexOf(server)]!
        const { up, down, processor, memory } = await transfer(server, file, round)
        result.up.push(up)
        result.down.push(down)
        result.processor.push(processor)
        result.memory = Math.max(result.memory, memory)
      }
    }
  } finally {
    await rm(file, { force: true })
  }
  const mebibytes = artifactBytes / 2 ** 20
  return results.map(({ up, down, processor, memory }) => ({
    'upload 1 GiB': mebibytes / median(up),
    'download 1 GiB': mebibytes / median(down),
    'processor for 1 GiB up': (median(processor) * 1024 * 1000) / mebibytes,
    'memory for it': memory / 2 ** 20,
  }))
}

/** Other bytes each time, on the disk before anything is measured. */
async function writeLargeFile(path: string): Promise<void> {
  const piece = randomBytes(1 << 20)
  const file = await open(path, 'w')
  for (let i = 0; i < artifactBytes / piece.length; i++) await file.write(piece)
  await file.close()
  spawnSync('sync')
}

/** Seconds up and down, processor seconds of the upload, and by how many bytes memory grew at most. */
async function transfer(server: TrackerServer, file: string, round: number) {
  const path = `${server.prefix}/api/2.0/mlflow-artifacts/artifacts/0/${'a'.repeat(32)}/artifacts/large-${round}.bin`
  const before = await server.memory()
  let peak = before
  const look = async () => {
    peak = Math.max(peak, await server.memory().catch(() => 0))
  }
  const watch = setInterval(() => void look(), 100)
  try {
    const busy = await server.processor()
    const up = await timed(() => send(server, 'PUT', path, file))
    const processor = (await server.processor()) - busy
    const down = await timed(() => send(server, 'GET', path))
    return { up, down, processor, memory: peak - before }
  } finally {
    clearInterval(watch)
  }
}

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!

async function timed(act: () => Promise<void>): Promise<number> {
  const start = performance.now()
  await act()
  return (performance.now() - start) / 1000
}

async function send({ port, headers }: TrackerServer, method: string, path: string, file?: string): Promise<void> {
  const length: Record<string, string> = file ? { 'content-length': String(artifactBytes) } : {}
  const call = request({ port, host: '127.0.0.1', method, path, headers: { ...headers, ...length } })
  const answered = new Promise<number>((resolve, reject) => {
    call.on('error', reject).on('response', (answer) => {
      let received = 0
      answer.on('data', (bytes: Buffer) => (received += bytes.length))
      answer.on('end', () =>
        answer.statusCode === 200 ? resolve(received) : reject(new Error(`${method}: ${answer.statusCode}`)),
      )
    })
  })
  if (file) await pipeline(createReadStream(file, { highWaterMark: 1 << 20 }), call)
  else call.end()
  const received = await answered
  if (!file && received !== artifactBytes) throw new Error(`${received} bytes came back`)
}

/** What only the platform is asked for. */
async function measureScale(server: TrackerServer): Promise<Figures> {
  const post = poster(server)
  const search = await searchTime(post, await fillOurs(server, 100_000))
  const { run_id } = (await post('/runs/create', { experiment_id: '0' })).run.info
  for (let from = 0; from < 1_000_000; from += 1000) {
    const metrics = Array.from({ length: 1000 }, (_, i) => point('', 'long', from + i))
    await post('/runs/log-batch', { run_id, metrics })
  }
  const path = `${server.prefix}/api/2.0/mlflow/metrics/get-history-bulk-interval?run_ids=${run_id}&metric_key=long&max_results=500`
  const times: number[] = []
  for (let i = 0; i < 9; i++) {
    const start = performance.now()
    const { metrics } = JSON.parse(await sendOnce(server, { method: 'GET', path }))
    times.push(performance.now() - start)
    if (metrics.length > 500 || metrics.length < 400) throw new Error(`${metrics.length} points came`)
  }
  return { 'search 100,000 runs': search, '500 of 1,000,000 points': times.sort((a, b) => a - b)[4]! }
}

/** A figure, how many times as good as the peer it must be, and the most it may take. */
interface Target {
  unit: '/s' | 'ms' | 'MiB/s' | 'MiB'
  ratio?: number
  most?: number
}

const targets: Record<string, Target> = {
  'create run': { unit: '/s', ratio: 10 },
  'log parameter': { unit: '/s', ratio: 10 },
  'log metric': { unit: '/s', ratio: 10 },
  'log batch of 10 metrics': { unit: '/s', ratio: 10 },
  'searches of 10,000 runs': { unit: '/s', ratio: 10 },
  'search 10,000 runs': { unit: 'ms', most: 100 },
  'upload 1 GiB': { unit: 'MiB/s', ratio: 1.5 },
  'download 1 GiB': { unit: 'MiB/s', ratio: 1.5 },
  'processor for 1 GiB up': { unit: 'ms', ratio: 1 },
  'memory for it': { unit: 'MiB', most: 100 },
  'search 100,000 runs': { unit: 'ms', most: 250 },
  '500 of 1,000,000 points': { unit: 'ms', most: 50 },
}

function report(ours: Figures, theirs: Figures): boolean {
  let met = true
  console.log(`${'figure'.padEnd(26)}${'platform'.padStart(14)}${'mlflow'.padStart(14)}${'ratio'.padStart(9)}  target`)
  for (const [name, { unit, ratio, most }] of Object.entries(targets)) {
    if (!(name in ours)) continue
    const [own, peer] = [ours[name]!, theirs[name]]
    const times = peer === undefined ? null : unit === 'ms' || unit === 'MiB' ? peer / own : own / peer
    const good = (ratio === undefined || (times ?? 0) >= ratio) && (most === undefined || own <= most)
    met &&= good
    const figure = (value?: number) => (value === undefined ? '' : `${value.toFixed(1)} ${unit}`).padStart(14)
    const wanted = [ratio && `≥ ${ratio} ×`, most && `≤ ${most} ${unit}`].filter(Boolean).join(', ')
    const shown = times === null ? '' : `${times.toFixed(1)} ×`
    console.log(
      `${name.padEnd(26)}${figure(own)}${figure(peer)}${shown.padStart(9)}  ${wanted} ${good ? 'met' : 'MISSED'}`,
    )
  }
  return met
}

const platform = await startOurs()
try {
  const peer = await startMlflow()
  try {
    const ours = { ...(await measure(platform, fillOurs)), ...(seconds > 0 ? await measureScale(platform) : {}) }
    const theirs = await measure(peer, fillMlflow)
    const [own, their] = await transfers([platform, peer])
    process.exitCode = report({ ...ours, ...own }, { ...theirs, ...their }) ? 0 : 1
  } finally {
    await peer.stop()
  }
} finally {
  await platform.stop()
}
