import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { pino } from 'pino'
import { installMlflow } from '../acceptance/mlflow/mlflow-environment.ts'
import { embeddedUrls } from '../server/src/platform/db/database.ts'
import { startEmbeddedPostgres } from '../server/src/platform/db/embedded-postgres.ts'

const password = 'only for this benchmark'

/** A server that speaks the protocol of MLflow, in processes of its own on a PostgreSQL of its own. */
export interface TrackerServer {
  name: string
  port: number
  /** What the paths begin with. */
  prefix: string
  headers: Record<string, string>
  /** Address of its database, as its owner. */
  databaseUrl: string
  /** Resident memory of the server and its children now, in bytes. */
  memory(): Promise<number>
  /** Processor seconds of the server and its children so far, without its database. */
  processor(): Promise<number>
  stop(): Promise<void>
}

/** Both kinds of server get the same PostgreSQL: the platform's embedded one with its own settings. */
async function startDatabase(folder: string) {
  const server = await startEmbeddedPostgres({ folder: join(folder, 'database'), log: pino({ level: 'error' }) })
  return { url: embeddedUrls(server, 'postgres').ownerUrl, stop: () => server.stop() }
}

export async function startOurs(): Promise<TrackerServer> {
  const folder = await mkdtemp(join(import.meta.dirname, '.data-'))
  const database = await startDatabase(folder)
  const port = await freePort()
  const child = spawn(process.execPath, [join(import.meta.dirname, '..', 'server', 'src', 'main.ts')], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      PATH: process.env.PATH,
      PLATFORM_MLOPS_PORT: String(port),
      PLATFORM_MLOPS_DATA_DIR: join(folder, 'data'),
      PLATFORM_MLOPS_DATABASE_URL: database.url,
      PLATFORM_MLOPS_ADMIN_PASSWORD: password,
      PLATFORM_MLOPS_LOG_LEVEL: 'warn',
      PLATFORM_MLOPS_ROLES: 'web',
    },
  })
  await answering(child, `http://127.0.0.1:${port}/readyz`)
  const authorization = `Bearer ${await trackerToken(port)}`
  const rest = serverOf(child, folder, database)
  return { name: 'platform', port, prefix: '/tracker', headers: { authorization }, databaseUrl: database.url, ...rest }
}

async function trackerToken(port: number): Promise<string> {
  const url = `http://127.0.0.1:${port}`
  const form = new URLSearchParams({ username: 'admin@example.com', password })
  const login = await fetch(`${url}/auth/jwt/login`, { method: 'POST', body: form })
  const { access_token } = (await login.json()) as { access_token: string }
  const headers = { authorization: `Bearer ${access_token}`, 'x-tenant': 'default', 'content-type': 'application/json' }
  const reply = await fetch(`${url}/api/v1/tracker/tokens`, { method: 'POST', body: '{}', headers })
  return ((await reply.json()) as { token: string }).token
}

/** The stock server with as many workers as it takes by itself. */
export async function startMlflow(): Promise<TrackerServer> {
  const python = installMlflow('3.17.2')
  const folder = await mkdtemp(join(import.meta.dirname, '.data-'))
  const database = await startDatabase(folder)
  const port = await freePort()
  const artifacts = join(folder, 'artifacts')
  await mkdir(artifacts)
  const parameters = ['-m', 'mlflow', 'server', '--host', '127.0.0.1', '--port', String(port)]
  const stores = ['--backend-store-uri', socketAddress(database.url), '--artifacts-destination', artifacts]
  const child = spawn(python, [...parameters, ...stores], {
    stdio: 'ignore',
    detached: true,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      MLFLOW_SERVER_ENABLE_JOB_EXECUTION: 'false',
      // With its own five connections per worker it fails under this load.
      MLFLOW_SQLALCHEMYSTORE_POOL_SIZE: '10',
      MLFLOW_SQLALCHEMYSTORE_MAX_OVERFLOW: '14',
    },
  })
  await answering(child, `http://127.0.0.1:${port}/health`)
  const rest = serverOf(child, folder, database)
  return { name: 'mlflow 3.17.2', port, prefix: '', headers: {}, databaseUrl: database.url, ...rest }
}

/** SQLAlchemy's way of naming a database behind a socket. */
function socketAddress(url: string): string {
  const { username, port, pathname, searchParams } = new URL(url)
  return `postgresql+psycopg2://${username}@/${pathname.slice(1)}?host=${searchParams.get('host')}&port=${port}`
}

function serverOf(child: ChildProcess, folder: string, database: { stop(): Promise<void> }) {
  return {
    memory: () => residentMemory(child.pid!),
    processor: () => processorSeconds(child.pid!),
    async stop() {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      if (child.spawnargs.includes('mlflow')) process.kill(-child.pid!, 'SIGTERM')
      else child.kill('SIGTERM')
      await ended
      await database.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const residentMemory = (pid: number): Promise<number> =>
  overTree(pid, async (each) => {
    const status = await readFile(`/proc/${each}/status`, 'utf8')
    return Number(/VmRSS:\s+(\d+)/.exec(status)![1]) * 1024
  })

/** User and system time, in which Linux counts hundredths of a second. @source proc_pid_stat(5), fields 14 and 15 */
const processorSeconds = (pid: number): Promise<number> =>
  overTree(pid, async (each) => {
    const line = await readFile(`/proc/${each}/stat`, 'latin1')
    const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) / 100
  })

/** A sum over a process and all that it started; one that ended meanwhile counts nothing. */
async function overTree(pid: number, look: (pid: number) => Promise<number>): Promise<number> {
  const own = await look(pid)
  const children = (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ').filter(Boolean)
  const parts = await Promise.all(children.map((child) => overTree(Number(child), look).catch(() => 0)))
  return parts.reduce((sum, part) => sum + part, own)
}

async function answering(child: ChildProcess, url: string): Promise<void> {
  for (let tries = 0; tries < 1200; tries++) {
    if (child.exitCode !== null) throw new Error(`${child.spawnargs[0]} ended with ${child.exitCode}`)
    const up = await fetch(url).then(
      (reply) => reply.ok,
      () => false,
    )
    if (up) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`${url} does not answer`)
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}
