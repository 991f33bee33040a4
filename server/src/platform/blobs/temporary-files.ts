import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'

/** Temporary files of this process inside a folder that other processes may share. */
export interface TemporaryFiles {
  /** A name that nobody uses yet. */
  path(): string
  /** A fresh folder, private to the user. */
  folder(purpose: string): Promise<string>
}

interface Log {
  info(fields: object, message: string): void
}

/** What a process of another machine left is nobody's after this long. */
const foreignLeftoverMs = 7 * 24 * 3600_000

/**
 * Gives this process its own corner in `folder` and removes the corners of processes that have died.
 *
 * A corner is named after machine, process id and start time, so that neither a second server in the same folder nor
 * a reused process id is mistaken for the dead owner.
 */
export async function temporaryFiles(folder: string, log?: Log): Promise<TemporaryFiles> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const machine = hostname().replaceAll(/[^\w-]/g, '-')
  const removed = await removeLeftovers(folder, machine)
  if (removed > 0) log?.info({ folder, removed }, 'removed temporary files of processes that died')
  const corner = join(folder, `${machine}.${process.pid}.${await startOf(process.pid)}.${randomUUID().slice(0, 8)}`)
  await mkdir(corner, { mode: 0o700 })
  return {
    path: () => join(corner, randomUUID()),
    folder: (purpose) => mkdtemp(join(corner, `${purpose.replaceAll(/[^\w-]/g, '-')}-`)),
  }
}

/** Returns how many things it removed. */
async function removeLeftovers(folder: string, machine: string): Promise<number> {
  let removed = 0
  for (const name of await readdir(folder)) {
    const corner = join(folder, name)
    const [owner, pid, start] = name.split('.')
    const dead = owner === machine ? ((await startOf(Number(pid))) === start ? [] : [corner]) : await oldEntries(corner)
    for (const path of dead) await rm(path, { recursive: true, force: true })
    removed += dead.length
  }
  return removed
}

/** The corner of another machine stays, because its owner may live; only what it holds grows old. */
async function oldEntries(corner: string): Promise<string[]> {
  const paths = (await readdir(corner).catch(() => [])).map((name) => join(corner, name))
  const ages = await Promise.all(
    paths.map(async (path) => Date.now() - ((await stat(path).catch(() => null))?.mtimeMs ?? 0)),
  )
  return paths.filter((_, index) => ages[index]! > foreignLeftoverMs)
}

/** Start time in clock ticks since boot, or '' when no such process lives. @source proc_pid_stat(5), field 22 */
async function startOf(pid: number): Promise<string> {
  const line = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '')
  return line.slice(line.lastIndexOf(')') + 2).split(' ')[19] ?? ''
}
