import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { Agent, type IncomingMessage, request } from 'node:http'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

const password = 'only for this benchmark'
const email = 'admin@example.com'

/** A platform in a process of its own, on a data folder beside the repository (never on a file system in memory). */
export interface BenchPlatform {
  dataDir: string
  pid: number
  port: number
  /** The login and the tenant of its requests. */
  headers: Record<string, string>
  /** JSON in and out, or bytes in; throws for any status of 400 and above. */
  // biome-ignore lint/suspicious/noExplicitAny: benchmarks look into answers of every shape
  call(method: string, path: string, body?: Uint8Array | object): Promise<any>
  /** Largest resident memory of the server process so far, in bytes. */
  peakMemory(): Promise<number>
  residentMemory(): Promise<number>
  /** Opens a request and leaves its answer to the caller to read. */
  stream(path: string): Promise<IncomingMessage>
  stop(): Promise<void>
}

/** `settings` are variables of the environment besides those it needs. */
export async function startPlatform(settings: Record<string, string> = {}): Promise<BenchPlatform> {
  const dataDir = await dataFolder()
  const port = await freePort()
  const child = spawn(process.execPath, [fileURLToPath(new URL('../server/src/main.ts', import.meta.url))], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      PATH: process.env.PATH,
      PLATFORM_MLOPS_PORT: String(port),
      PLATFORM_MLOPS_DATA_DIR: dataDir,
      PLATFORM_MLOPS_ADMIN_PASSWORD: password,
      PLATFORM_MLOPS_LOG_LEVEL: 'warn',
      ...settings,
    },
  })
  const agent = new Agent({ keepAlive: true, maxSockets: 8 })
  const send = (method: string, path: string, headers: Record<string, string>, body?: Uint8Array) =>
    exchange(agent, port, method, path, headers, body)
  const token = await signIn(child, send)
  const status = async (key: string) => {
    const text = await readFile(`/proc/${child.pid}/status`, 'utf8')
    return Number(new RegExp(`${key}:\\s+(\\d+)`).exec(text)![1]) * 1024
  }
  const own = { authorization: `Bearer ${token}`, 'x-tenant': 'default' }
  return {
    dataDir,
    pid: child.pid!,
    port,
    headers: own,
    async call(method, path, body) {
      const bytes = body === undefined || body instanceof Uint8Array ? body : Buffer.from(JSON.stringify(body))
      const type = body instanceof Uint8Array ? 'application/octet-stream' : 'application/json'
      const headers: Record<string, string> = { ...own }
      if (bytes) Object.assign(headers, { 'content-type': type })
      return send(method, path, headers, bytes)
    },
    peakMemory: () => status('VmHWM'),
    residentMemory: () => status('VmRSS'),
    stream: (path) =>
      new Promise((resolve, reject) => {
        const headers = { authorization: `Bearer ${token}`, 'x-tenant': 'default' }
        request({ agent, port, path, headers }, resolve).on('error', reject).end()
      }),
    async stop() {
      agent.destroy()
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGTERM')
      await ended
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

// biome-ignore lint/suspicious/noExplicitAny: as above
type Send = (method: string, path: string, headers: Record<string, string>, body?: Uint8Array) => Promise<any>

async function signIn(child: ChildProcess, send: Send): Promise<string> {
  const form = Buffer.from(new URLSearchParams({ username: email, password }).toString())
  for (let tries = 0; tries < 600; tries++) {
    if (child.exitCode !== null) throw new Error('the platform ended')
    try {
      await send('GET', '/readyz', {})
      const headers = { 'content-type': 'application/x-www-form-urlencoded' }
      return (await send('POST', '/auth/jwt/login', headers, form)).access_token
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
  throw new Error('the platform does not come up')
}

async function exchange(
  agent: Agent,
  port: number,
  method: string,
  path: string,
  headers: Record<string, string>,
  body?: Uint8Array,
): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; bytes: Buffer }>()
  const length: Record<string, string> = body ? { 'content-length': String(body.length) } : {}
  const sent = request({ agent, port, method, path, headers: { ...headers, ...length } }, (response) => {
    buffer(response).then((bytes) => resolve({ status: response.statusCode!, bytes }), reject)
  })
  sent.on('error', reject)
  sent.end(body)
  const { status, bytes } = await promise
  if (status >= 400) throw new Error(`${method} ${path} answered ${status}: ${bytes.toString().slice(0, 500)}`)
  return bytes.length > 0 ? JSON.parse(bytes.toString()) : null
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** Sends a file in chunks, some in flight at once, and waits until it is assembled; returns the ended session. */
export async function sendFile(
  platform: BenchPlatform,
  dataset: string,
  file: { filename: string; size: number; sha256?: string; read(start: number, length: number): Promise<Uint8Array> },
  inFlight: number,
) {
  const { filename, size, sha256 } = file
  const base = `/api/v1/datasets/${dataset}/uploads`
  const session = await platform.call('POST', base, { filename, size, sha256 })
  const chunks = Array.from({ length: session.chunk_count }, (_, index) => index).values()
  const lane = async () => {
    for (const index of chunks) {
      const start = index * session.chunk_size
      const bytes = await file.read(start, Math.min(session.chunk_size, size - start))
      await platform.call('PUT', `${base}/${session.upload_id}/chunks/${index}`, bytes)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
  await platform.call('POST', `${base}/${session.upload_id}:complete`)
  for (;;) {
    const state = await platform.call('GET', `${base}/${session.upload_id}`)
    if (state.state === 'failed') throw new Error(JSON.stringify(state.error))
    if (state.state === 'done') return state
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** A fresh data folder beside the benchmarks, which git ignores; the caller removes it. */
export async function dataFolder(): Promise<string> {
  const folder = join(import.meta.dirname, 'data')
  await mkdir(folder, { recursive: true })
  return mkdtemp(join(folder, 'platform-'))
}

export const seconds = (ms: number): string => `${(ms / 1000).toFixed(2)} s`
