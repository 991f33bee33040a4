/**
 * What the serving proxy adds to an inference request: sign-in check, tenant, route, counting, two streamed bodies.
 * The peer is the same model server asked directly, with the same bytes, in alternating rounds.
 * Target: at most 1 ms more at the median and 3 ms at the 99th percentile, over one connection.
 * Usage: node bench/proxy-overhead.ts (about 40 seconds)
 */
import { fork } from 'node:child_process'
import { createReadStream } from 'node:fs'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Client, signIn, until } from '../acceptance/main-job/client.ts'
import { probeClasses, probeGraph, probeSize, writeModelFolder } from '../model-server/test/model-folders.ts'
import { registerModelVersion } from '../server/src/features/models/models.api.ts'
import { startInstance } from '../server/src/instance.ts'
import { loadConfig } from '../server/src/platform/config.ts'
import type { Services } from '../server/src/platform/context.ts'
import { transaction } from '../server/src/platform/db/transaction.ts'

const email = 'admin@example.com'
const password = 'only for this benchmark'
const rounds = 8
const roundMs = 1000

/** A platform in a process of its own with one model registered; tells its address and waits to be ended. */
async function servePlatform(dataDir: string): Promise<void> {
  const config = loadConfig({
    PLATFORM_MLOPS_PORT: '0',
    PLATFORM_MLOPS_DATA_DIR: dataDir,
    PLATFORM_MLOPS_ADMIN_EMAIL: email,
    PLATFORM_MLOPS_ADMIN_PASSWORD: password,
    PLATFORM_MLOPS_LOG_LEVEL: 'warn',
  })
  const instance = await startInstance(config)
  await registerProbe(instance.services)
  process.send?.(instance.url!)
  process.once('message', () => void instance.stop().then(() => process.exit(0)))
}

async function registerProbe(services: Services): Promise<void> {
  const folder = await writeModelFolder(probeGraph(), probeClasses)
  const files: { path: string; digest: string; size: number }[] = []
  for (const path of await readdir(folder))
    files.push({ path, ...(await services.blobs.put(createReadStream(join(folder, path)))) })
  await rm(folder, { recursive: true })
  await transaction(services.db, 'system', async (tx) => {
    const tenant = await tx.selectFrom('tenants').select(['id', 'code']).executeTakeFirstOrThrow()
    const actor = { userId: tenant.id, email, fullName: null, isSuperuser: true, sessionId: null }
    await registerModelVersion(
      tx,
      { tenant, actor, clock: services.clock },
      {
        ...{ name: 'probe', runId: '0'.repeat(32), experimentId: '0', files, classes: probeClasses, signature: null },
        ...{ task: 'image_classification', framework: 'none', architecture: 'probe', metrics: {}, environment: {} },
        dataset: { id: 'probe', name: 'probe', digest: `sha256:${'0'.repeat(64)}` },
      },
    )
  })
}

async function deploy(client: Client): Promise<void> {
  const { id } = await client.send('POST', '/api/v1/images', { model_name: 'probe', version: '1' })
  const stateOf = (path: string) => async () => {
    const { state, error } = await client.get(path)
    if (state === 'FAILED') throw new Error(`${path} failed: ${error?.message}`)
    return state === 'READY' || state === 'RUNNING' ? state : null
  }
  await until('the image', 300, stateOf(`/api/v1/images/${id}`))
  await client.send('POST', '/api/v1/serving/endpoints', { name: 'probe', image_id: id, replicas: 1, gpu: 0 })
  await until('the endpoint', 300, stateOf('/api/v1/serving/endpoints/probe'))
}

/** Where the one replica listens, from the folder that the compute keeps of it. */
async function replicaUrl(dataDir: string): Promise<string> {
  const compute = join(dataDir, 'compute')
  const name = (await readdir(compute)).find((entry) => entry.startsWith('serve-'))!
  return `http://127.0.0.1:${(await readFile(join(compute, name, 'port'), 'utf8')).trim()}`
}

interface Way {
  url: string
  headers: Record<string, string>
  latencies: number[]
}

const floats = Buffer.from(new Float32Array(3 * probeSize.width * probeSize.height).fill(0.5).buffer)
const shape = [1, 3, probeSize.height, probeSize.width]
const tensor = { name: 'images', datatype: 'FP32', shape, parameters: { binary_data_size: floats.length } }
const head = Buffer.from(JSON.stringify({ inputs: [tensor] }))
const body = Buffer.concat([head, floats])

async function load({ url, headers, latencies }: Way, connections: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const endsAt = performance.now() + roundMs
  const send = () => {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const all = { ...headers, 'inference-header-content-length': String(head.length), 'content-length': body.length }
    const sent = request(`${url}/v2/models/probe/infer`, { method: 'POST', agent, headers: all }, (answer) => {
      answer.resume()
      answer.once('end', () =>
        answer.statusCode === 200 ? resolve() : reject(new Error(`${url} answered ${answer.statusCode}`)),
      )
    })
    sent.once('error', reject)
    sent.end(body)
    return promise
  }
  const client = async () => {
    for (let startedAt = performance.now(); startedAt < endsAt; startedAt = performance.now()) {
      await send()
      latencies.push(performance.now() - startedAt)
    }
  }
  await Promise.all(Array.from({ length: connections }, client))
  agent.destroy()
}

function summary({ latencies }: Way) {
  const sorted = latencies.sort((a, b) => a - b)
  const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)]!
  return { p50: at(0.5), p99: at(0.99), perSecond: (sorted.length * 1000) / (rounds * roundMs) }
}

async function compare(direct: Omit<Way, 'latencies'>, proxied: Omit<Way, 'latencies'>, connections: number) {
  const ways = [direct, proxied].map((way): Way => ({ ...way, latencies: [] }))
  for (const way of ways) await load({ ...way, latencies: [] }, connections)
  // Alternating: other work on the machine changes both alike.
  for (let round = 0; round < rounds; round++) for (const way of ways) await load(way, connections)
  const [bare, through] = ways.map(summary)
  const row = (name: string, { p50, p99, perSecond }: ReturnType<typeof summary>) =>
    `  ${name.padEnd(10)} p50 ${p50.toFixed(2)} ms  p99 ${p99.toFixed(2)} ms  ${perSecond.toFixed(0)} requests/s`
  console.log(`connections: ${connections}`)
  console.log(row('direct', bare!))
  console.log(row('proxied', through!))
  const added = (through!.p50 - bare!.p50).toFixed(2)
  console.log(`  the proxy adds p50 ${added} ms, p99 ${(through!.p99 - bare!.p99).toFixed(2)} ms`)
}

async function main(): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'proxy-overhead-'))
  const child = fork(fileURLToPath(import.meta.url), ['--platform', dataDir])
  const exited = new Promise((resolve) => child.once('exit', resolve))
  try {
    const url = await new Promise<string>((resolve, reject) => {
      child.once('message', (message) => resolve(String(message)))
      child.once('exit', (code) => reject(new Error(`the platform ended with code ${code}`)))
    })
    const client = await signIn(url, email, password, 'default')
    await deploy(client)
    const direct = { url: await replicaUrl(dataDir), headers: {} }
    const proxied = { url: `${url}/api/v1/serving/endpoints/probe/proxy`, headers: client.headers }
    for (const connections of [1, 8]) await compare(direct, proxied, connections)
    await client.send('DELETE', '/api/v1/serving/endpoints/probe')
    await until('the endpoint to go', 60, async () =>
      (await client.get('/api/v1/serving/endpoints')).total ? null : 1,
    )
  } finally {
    if (child.connected) child.send('stop')
    await exited
    await rm(dataDir, { recursive: true, force: true })
  }
}

const [mode, dataDir = ''] = process.argv.slice(2)
if (mode === '--platform') await servePlatform(dataDir)
else await main()
