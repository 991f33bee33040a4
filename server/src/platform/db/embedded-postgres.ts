import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { choosePostgresAccount, type PostgresAccount, succeeds } from './embedded-account.ts'
import { preparePostgresBinaries } from './embedded-binaries.ts'
import {
  ensureCluster,
  ensurePrivateFolder,
  findOwner,
  findPostmaster,
  privateFolderOf,
  programVersion,
  removeOwner,
  socketFolderOf,
  writeOwner,
} from './embedded-cluster.ts'

export type DatabaseLog = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>

export interface EmbeddedPostgresOptions {
  /** Everything of the server lies below this folder; made when absent. */
  folder: string
  log: DatabaseLog
  /** Server settings by name, over the defaults. */
  settings?: Record<string, string>
  /** Called once when the server died twice within a minute, or could not be started again. */
  onFatal?: (error: Error) => void
}

export interface EmbeddedPostgres {
  /** Folder of the Unix socket, readable by its owner alone. */
  socketFolder: string
  port: number
  /** Such as `18.4`. */
  version: string
  /** Process id of the server; another one after it was started again. */
  readonly pid: number
  /** Closes all connections and stops the server; everything is on disk afterwards. */
  stop(): Promise<void>
}

/** Where the parts of an embedded server lie, and as whom it runs. */
export interface EmbeddedLocation {
  account: PostgresAccount
  /** The data folder, or the one that stands in for it. */
  folder: string
  /** Folder of PostgreSQL's own files. */
  cluster: string
  socketFolder: string
}

interface Installation extends EmbeddedLocation {
  binFolder: string
  version: string
  settings: Record<string, string>
  log: DatabaseLog
}

const port = 5432
const startLimitMs = 300_000
const orphanLimitMs = 60_000
const stopLimitMs = 30_000
const crashWindowMs = 60_000

const defaultSettings = {
  listen_addresses: '',
  port: String(port),
  shared_buffers: '256MB',
  // Flushing the file system as a whole makes the start after a crash three times faster than file by file.
  recovery_init_sync_method: 'syncfs',
  timezone: 'UTC',
  jit: 'off',
  // Errors of statements reach the client that sent them; the log keeps what nobody else would hear of.
  log_min_messages: 'log',
  log_checkpoints: 'off',
}

/**
 * Starts PostgreSQL from the npm package on a data folder of its own, and keeps it running.
 *
 * Works as an ordinary user and as root. The server listens on a Unix socket in a private folder and trusts whoever
 * reaches it. It stops when this process ends, however it ends; the next start waits for that. A folder that another
 * live process uses, or that another major version wrote, is refused.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const installation = await install(options)
  const { folder, cluster, account, binFolder, version, settings, socketFolder } = installation
  await claim(installation)
  try {
    await ensureCluster(folder, cluster, { account, binFolder, version, durable: settings.fsync !== 'off' })
    const supervised = await supervise(installation, options.onFatal)
    return {
      socketFolder,
      port,
      version,
      get pid() {
        return supervised.pid()
      },
      async stop() {
        await supervised.stop()
        await removeOwner(folder)
      },
    }
  } catch (error) {
    await removeOwner(folder)
    throw error
  }
}

/** Finds, and where needed makes, the folders of the server whose data lies in `folder`. */
export async function locateEmbeddedPostgres(folder: string): Promise<EmbeddedLocation> {
  const account = await choosePostgresAccount()
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const reachable = await reachableFolder(await realpath(folder), account)
  return { account, folder: reachable, cluster: join(reachable, 'cluster'), socketFolder: socketFolderOf(reachable) }
}

/** The folder itself, or a stand-in under /var/lib when the account that PostgreSQL runs as cannot reach it. */
async function reachableFolder(folder: string, account: PostgresAccount): Promise<string> {
  const { owner } = account
  if (!owner) return folder
  const reachable = await succeeds(account.command('test', ['-x', dirname(folder)]))
  const own = reachable ? folder : privateFolderOf(folder, '/var/lib')
  await ensurePrivateFolder(own, owner)
  return realpath(own)
}

/** The server that another process runs on `folder` now, or null. */
export async function findEmbeddedPostgres(folder: string): Promise<{ socketFolder: string; port: number } | null> {
  const { folder: reachable, cluster, socketFolder } = await locateEmbeddedPostgres(folder)
  const running = (await findOwner(reachable)) !== null && (await findPostmaster(cluster))?.status === 'ready'
  return running ? { socketFolder, port } : null
}

async function install({ folder, settings, log }: EmbeddedPostgresOptions): Promise<Installation> {
  const location = await locateEmbeddedPostgres(folder)
  const { account, socketFolder } = location
  const copyFolder = account.owner ? '/var/tmp' : location.folder
  const { binFolder } = await preparePostgresBinaries(copyFolder, account.owner !== undefined)
  await ensurePrivateFolder(socketFolder, account.owner)
  const version = await programVersion(account, binFolder)
  const effective = { ...defaultSettings, unix_socket_directories: socketFolder, ...settings }
  return { ...location, binFolder, version, settings: effective, log }
}

/** Takes the folder over from a process that is gone, whose server may still be shutting down. */
async function claim({ folder, cluster, log }: Installation): Promise<void> {
  const owner = await findOwner(folder)
  if (owner !== null) throw new Error(`The database in ${folder} is in use by process ${owner}`)
  await writeOwner(folder)
  const started = Date.now()
  for (let signals = 0; ; await sleep(20)) {
    const postmaster = await findPostmaster(cluster)
    const waitedMs = Date.now() - started
    if (!postmaster) return
    if (waitedMs > orphanLimitMs) throw new Error(`PostgreSQL ${postmaster.pid} of an earlier run does not stop`)
    // The kernel told it to stop when its owner died; where it could not, we do: fast first, then at once.
    if (signals === 0 || (signals === 1 && waitedMs > orphanLimitMs / 2)) {
      log.info({ pid: postmaster.pid }, 'waiting for the database server of an earlier run to stop')
      process.kill(postmaster.pid, signals === 0 ? 'SIGINT' : 'SIGQUIT')
      signals++
    }
  }
}

interface Running {
  child: ChildProcess
  pid: number
  exited: Promise<unknown>
}

/** Passes the server's lines on, and keeps the last ones for the message when it does not start. */
function follow(child: ChildProcess, log: DatabaseLog): string[] {
  const lines: string[] = []
  for (const stream of [child.stdout, child.stderr]) {
    if (!stream) continue
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line)
      if (lines.length > 20) lines.shift()
      const message = `postgres: ${line.replace(/^[-\d]+ [\d:.]+ UTC \[\d+\] /, '')}`
      if (/(FATAL|PANIC): (?! terminating connection)/.test(line)) log.warn(message)
      else log.debug(message)
    })
  }
  return lines
}

/** Starts the server once and waits until it takes connections. */
async function launch(installation: Installation): Promise<Running> {
  const { account, binFolder, cluster, settings, log } = installation
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const command = account.command(join(binFolder, 'postgres'), ['-D', cluster, ...flags])
  const child = spawn(command.file, command.args, command.options)
  const lines = follow(child, log)
  let ended: string | undefined
  const exited = once(child, 'close').then(
    ([code, signal]) => (ended = `ended with ${signal ?? code}`),
    (error) => (ended = String(error)),
  )
  for (const started = Date.now(); ended === undefined; await sleep(5)) {
    const postmaster = await findPostmaster(cluster)
    if (postmaster?.pid === child.pid && postmaster?.status === 'ready') return { child, pid: postmaster.pid, exited }
    if (Date.now() - started > startLimitMs) child.kill('SIGQUIT')
  }
  throw new Error(`PostgreSQL in ${cluster} ${ended} before it was ready:\n${lines.join('\n')}`)
}

/** After a crash, the old server's processes may hold its memory for a moment; a start in that moment fails. */
async function launchAgain(installation: Installation): Promise<Running> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await launch(installation)
    } catch (error) {
      if (attempt === 10) throw error
      await sleep(200 * attempt)
    }
  }
}

/** Keeps one server running: a crash starts it again, a second crash within a minute is fatal. */
async function supervise(installation: Installation, onFatal: EmbeddedPostgresOptions['onFatal']) {
  const { log } = installation
  let running = await launch(installation)
  let restartedAt = Number.NEGATIVE_INFINITY
  let stopping = false
  const watching = watch()

  async function watch(): Promise<void> {
    for (;;) {
      const reason = await running.exited
      if (stopping) return
      const crashedAgain = Date.now() - restartedAt < crashWindowMs
      if (crashedAgain) return fatal(new Error(`The database server ${reason}, for the second time within a minute`))
      log.error({ pid: running.pid }, `the database server ${reason}; starting it again`)
      restartedAt = Date.now()
      try {
        running = await launchAgain(installation)
      } catch (cause) {
        return fatal(new Error('The database server died and could not be started again', { cause }))
      }
      log.info({ pid: running.pid }, 'the database server runs again')
    }
  }

  function fatal(error: Error): void {
    log.error({ err: error }, error.message)
    onFatal?.(error)
  }

  async function stop(): Promise<void> {
    stopping = true
    running.child.kill('SIGINT')
    const timer = setTimeout(() => running.child.kill('SIGQUIT'), stopLimitMs)
    await running.exited
    clearTimeout(timer)
    await watching
  }

  return { pid: () => running.pid, stop }
}
