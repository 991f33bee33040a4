import { mkdir, realpath, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
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
import { type DatabaseLog, type EmbeddedLocation, type Installation, supervise } from './embedded-server.ts'

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

const port = 5432
const orphanLimitMs = 60_000

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
        await rm(socketFolder, { recursive: true, force: true })
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
