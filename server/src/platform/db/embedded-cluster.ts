import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  chmod,
  chown,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { PostgresAccount } from './embedded-account.ts'

// The kernel allows 107 bytes for the whole socket path, and the file name takes 16 of them.
const socketFolderLengthMax = 90

export interface Postmaster {
  pid: number
  /** `ready`, `starting`, `stopping`, …; empty while the file is being written. */
  status: string
}

const hashOf = (folder: string) => createHash('sha256').update(folder).digest('hex').slice(0, 16)

/** Where the socket of the cluster in `folder` lies: inside it, or in a short private folder when that path is too long. */
export function socketFolderOf(folder: string): string {
  const inside = join(folder, 'socket')
  return Buffer.byteLength(inside) <= socketFolderLengthMax ? inside : privateFolderOf(folder, '/tmp')
}

/** A short path that stands for `folder` below a shared folder; the same for every process of this user. */
export function privateFolderOf(folder: string, parent: string): string {
  return join(parent, `platform-mlops-${process.getuid?.()}-${hashOf(folder)}`)
}

/** Makes the socket folder, reachable by its owner alone: whoever reaches the socket is trusted. */
export async function ensurePrivateFolder(path: string, owner: PostgresAccount['owner']): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  const stat = await lstat(path)
  const ours = stat.uid === process.getuid?.() || stat.uid === owner?.uid
  if (!stat.isDirectory() || !ours) throw new Error(`${path} belongs to somebody else; remove it and start again`)
  if (owner) await chown(path, owner.uid, owner.gid)
  await chmod(path, 0o700)
}

/** Runs one of PostgreSQL's programs to its end. */
async function runProgram(account: PostgresAccount, file: string, args: string[]): Promise<string> {
  const command = account.command(file, args)
  const child = spawn(command.file, command.args, command.options)
  const output = Promise.all([child.stdout, child.stderr].map((stream) => (stream ? text(stream) : '')))
  const [code, signal] = await once(child, 'exit')
  const [stdout = '', stderr = ''] = await output
  if (code !== 0) throw new Error(`${file} ended with ${signal ?? code}:\n${stderr.trim() || stdout.trim()}`)
  return stdout
}

/** The version of the programs, such as `18.4`. */
export async function programVersion(account: PostgresAccount, binFolder: string): Promise<string> {
  const answer = await runProgram(account, join(binFolder, 'postgres'), ['--version'])
  const version = /(\d+)\.(\d+)/.exec(answer)?.[0]
  if (!version) throw new Error(`postgres --version answered '${answer.trim()}'`)
  return version
}

/** Refuses a cluster that another major version of PostgreSQL wrote; returns false when there is none. */
async function hasCluster(cluster: string, version: string): Promise<boolean> {
  const written = await readFile(join(cluster, 'PG_VERSION'), 'utf8').catch(() => undefined)
  if (written === undefined) return false
  const [major] = version.split('.')
  if (written.trim() === major) return true
  throw new Error(
    `The database in ${cluster} was written by PostgreSQL ${written.trim()} and this is PostgreSQL ${version}. ` +
      'Start the release that wrote it, and move the data with pg_dump and pg_restore.',
  )
}

interface InitOptions {
  account: PostgresAccount
  binFolder: string
  version: string
  durable: boolean
}

/**
 * Makes the cluster when there is none yet: complete in a temporary folder first, then in place by one rename, so that
 * an interrupted first start leaves nothing that looks like a cluster.
 */
export async function ensureCluster(folder: string, cluster: string, options: InitOptions): Promise<void> {
  if (await hasCluster(cluster, options.version)) return
  for (const name of await readdir(folder)) {
    if (name.startsWith('initdb-')) await rm(join(folder, name), { recursive: true, force: true })
  }
  const temporary = await mkdtemp(join(folder, 'initdb-'))
  const { account } = options
  if (account.owner) await chown(temporary, account.owner.uid, account.owner.gid)
  const locale = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8']
  const trust = ['--auth=trust', '--username=postgres', '--no-instructions']
  const sync = options.durable ? '--sync-method=fsync' : '--no-sync'
  await runProgram(account, join(options.binFolder, 'initdb'), ['-D', temporary, ...locale, ...trust, sync])
  await rename(temporary, cluster)
}

/** The process that the cluster's lock file names, which may be long gone; 0 when there is none. */
export async function lockHolder(cluster: string): Promise<number> {
  const content = await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => '')
  return Number.parseInt(content, 10) || 0
}

/** What `postmaster.pid` says, or null when no server runs on the cluster. */
export async function findPostmaster(cluster: string): Promise<Postmaster | null> {
  const content = await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => undefined)
  const lines = content?.split('\n') ?? []
  const pid = Number(lines[0])
  if (!Number.isSafeInteger(pid) || pid <= 1) return null
  // A server works inside its data folder; the process id alone may belong to something else by now.
  const workingFolder = await readlink(`/proc/${pid}/cwd`).catch(() => undefined)
  return workingFolder === cluster ? { pid, status: lines[7]?.trim() ?? '' } : null
}

/** When a process started, in clock ticks since boot; tells it from a later process of the same id. */
async function startTicks(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
}

/** The live process that started the server of `folder`, or null. */
export async function findOwner(folder: string): Promise<number | null> {
  const content = await readFile(join(folder, 'owner'), 'utf8').catch(() => '')
  const [pid = '', ticks] = content.split(' ')
  return ticks !== undefined && (await startTicks(Number(pid))) === ticks ? Number(pid) : null
}

export async function writeOwner(folder: string): Promise<void> {
  await writeFile(join(folder, 'owner'), `${process.pid} ${await startTicks(process.pid)}`)
}

export async function removeOwner(folder: string): Promise<void> {
  await rm(join(folder, 'owner'), { force: true })
}
