import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { openRegistrySession } from '../acceptance/registry/registry-session.ts'

export const execute = promisify(execFile)

/** A registry under test. */
export interface Contestant {
  name: 'platform' | 'docker-registry'
  url: string
  /** First part of repository names, with a slash at its end. */
  prefix: string
  /** `user:password`, or null when anybody is let in. */
  credentials: string | null
  pid: number
}

export interface Arena {
  folder: string
  platform: Contestant
  /** Debian's docker-registry with its default storage, without access log and without authentication. */
  peer: Contestant
  close(): Promise<void>
}

const email = 'admin@example.com'
const password = 'only for this benchmark'

/** Starts both on loopback, each with a fresh folder on the same disk. Ends the program when the peer is not installed. */
export async function openArena(): Promise<Arena> {
  for (const program of ['docker-registry', 'skopeo']) {
    if (spawnSync('which', [program]).status === 0) continue
    console.error(`This benchmark needs ${program} (apt-get install docker-registry skopeo).`)
    process.exit(2)
  }
  const folder = await mkdtemp(join(tmpdir(), 'bench-registry-'))
  const children: ChildProcess[] = []
  const platform = await startPlatform(folder, children)
  const peer = await startPeer(folder, children)
  return {
    folder,
    platform,
    peer,
    async close() {
      for (const child of children) {
        const exited = new Promise((resolve) => child.once('exit', resolve))
        child.kill('SIGTERM')
        await exited
      }
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function startPlatform(folder: string, children: ChildProcess[]): Promise<Contestant> {
  const port = await freePort()
  const child = spawn(process.execPath, [fileURLToPath(new URL('../server/src/main.ts', import.meta.url))], {
    stdio: 'ignore',
    env: {
      ...process.env,
      PLATFORM_MLOPS_DATA_DIR: join(folder, 'platform'),
      PLATFORM_MLOPS_PORT: String(port),
      PLATFORM_MLOPS_ADMIN_EMAIL: email,
      PLATFORM_MLOPS_ADMIN_PASSWORD: password,
      PLATFORM_MLOPS_LOG_LEVEL: 'warn',
    },
  })
  children.push(child)
  const url = `http://127.0.0.1:${port}`
  await answering(`${url}/healthz`)
  const { token } = await openRegistrySession(url, email, password)
  return { name: 'platform', url, prefix: 'default/', credentials: `me:${token}`, pid: child.pid! }
}

async function startPeer(folder: string, children: ChildProcess[]): Promise<Contestant> {
  const port = await freePort()
  const config = [
    'version: 0.1',
    'log: { level: error, accesslog: { disabled: true } }',
    `storage: { filesystem: { rootdirectory: ${join(folder, 'docker-registry')} }, delete: { enabled: true } }`,
    `http: { addr: 127.0.0.1:${port} }`,
  ]
  const path = join(folder, 'docker-registry.yml')
  await writeFile(path, config.join('\n'))
  const child = spawn('docker-registry', ['serve', path], { stdio: 'ignore' })
  children.push(child)
  const url = `http://127.0.0.1:${port}`
  await answering(`${url}/v2/`)
  return { name: 'docker-registry', url, prefix: '', credentials: null, pid: child.pid! }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}

async function answering(url: string): Promise<void> {
  const end = Date.now() + 60_000
  while (Date.now() < end) {
    if (await fetch(url).catch(() => null)) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`${url} does not answer`)
}

export const authorization = ({ credentials }: Contestant): Record<string, string> =>
  credentials ? { authorization: `Basic ${Buffer.from(credentials).toString('base64')}` } : {}

export async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  await work()
  return (performance.now() - started) / 1000
}

export const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!

/** Resident memory of a process, in bytes. */
export async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024
}

/** Processor time that a process has used so far, in seconds. @source proc_pid_stat(5), fields 14 and 15 in ticks of 10 ms */
export async function processorSeconds(pid: number): Promise<number> {
  const line = await readFile(`/proc/${pid}/stat`, 'latin1')
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}
