import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { PostgresAccount } from './embedded-account.ts'
import { findPostmaster, lockHolder } from './embedded-cluster.ts'

export type DatabaseLog = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>

/** Where the parts of an embedded server lie, and as whom it runs. */
export interface EmbeddedLocation {
  account: PostgresAccount
  /** The data folder, or the one that stands in for it. */
  folder: string
  /** Folder of PostgreSQL's own files. */
  cluster: string
  socketFolder: string
}

/** All that is needed to start the server. */
export interface Installation extends EmbeddedLocation {
  binFolder: string
  version: string
  settings: Record<string, string>
  log: DatabaseLog
}

const startLimitMs = 300_000
const stopLimitMs = 30_000
const crashWindowMs = 60_000

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
  // A lock file of a server that is gone may name a process that is alive but something else, as after the restart of a
  // container. PostgreSQL takes the lock of a process of this name for stale, and still checks for its shared memory.
  const stale = { PG_GRANDPARENT_PID: String(await lockHolder(cluster)) }
  const child = spawn(command.file, command.args, { ...command.options, env: { ...command.options.env, ...stale } })
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

/** Starts the server; the processes of one that crashed may hold its memory for a moment, and are waited for. */
async function launchPatiently(installation: Installation): Promise<Running> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await launch(installation)
    } catch (error) {
      if (attempt === 10 || !/shared memory block .* still in use/.test(String(error))) throw error
      await sleep(200 * attempt)
    }
  }
}

/** Keeps one server running: a crash starts it again, a second crash within a minute is fatal. */
export async function supervise(installation: Installation, onFatal?: (error: Error) => void) {
  const { log } = installation
  let running = await launchPatiently(installation)
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
        running = await launchPatiently(installation)
      } catch (cause) {
        return fatal(new Error('The database server died and could not be started again', { cause }))
      }
      log.info({ pid: running.pid }, 'the database server runs again')
      // stop() may have come in between; it told the old one.
      if (stopping) running.child.kill('SIGINT')
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
    await watching
    clearTimeout(timer)
  }

  return { pid: () => running.pid, stop }
}
