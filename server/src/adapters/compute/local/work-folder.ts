import { randomUUID } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { WorkSpec, WorkStatus } from '../compute.ts'
import { type ProcessStat, parseStat, sessionMembers, signalProcess, statOf } from './session-processes.ts'
import { meaningOf } from './work-shim.ts'

/** Why the driver ended a work. */
export type EndReason = 'stopped' | 'killed' | 'memory' | 'time'

/** Work as this machine runs it: its image, if any, has become a program and a folder. */
export interface RunnableSpec extends Omit<WorkSpec, 'image' | 'folder'> {
  folder: string
  image?: { digest: string }
}

/** A work whose process was started, whatever became of it. */
export interface StartedWork {
  name: string
  spec: RunnableSpec
  /** The shell that stays with the work: leader of its session and group. */
  leader: Pick<ProcessStat, 'pid' | 'start'>
  startedAt: Date
}

export const workName = /^[a-z0-9][a-z0-9-]{0,62}$/

interface TextFile {
  text: string
  at: Date
}

async function readText(path: string): Promise<TextFile | null> {
  try {
    const [text, { mtime }] = await Promise.all([readFile(path, 'utf8'), stat(path)])
    return { text, at: mtime }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** Records what is to be run, whole or not at all. */
export async function recordSpec(folder: string, spec: RunnableSpec): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const partial = join(folder, `spec.${randomUUID()}`)
  await writeFile(partial, JSON.stringify(spec, null, 2), { mode: 0o600 })
  await rename(partial, join(folder, 'spec.json'))
}

/** The work in a folder, or null while none was started there. */
export async function findStarted(root: string, name: string): Promise<StartedWork | null> {
  const folder = join(root, name)
  const [claim, spec] = await Promise.all([readText(join(folder, 'process')), readText(join(folder, 'spec.json'))])
  const leader = claim && parseStat(claim.text)
  // An empty claim is one that is being written.
  return leader && spec ? { name, spec: JSON.parse(spec.text), leader, startedAt: claim.at } : null
}

export async function listNames(root: string): Promise<string[]> {
  return (await readdir(root)).filter((name) => workName.test(name))
}

export function isSupervised({ leader }: StartedWork): boolean {
  const stat = statOf(leader.pid)
  return stat?.alive === true && stat.start === leader.start
}

/** Remembers why the work is being ended; the first reason stays. */
export async function recordReason(root: string, name: string, reason: EndReason): Promise<void> {
  const written = writeFile(join(root, name, 'reason'), reason, { flag: 'wx', mode: 0o600 })
  // Work that somebody removes meanwhile needs no reason any more.
  await written.catch((error) => error.code === 'ENOENT' || ignoreExisting(error))
}

/** How the work ended, or null while it runs. */
export async function findEnd(
  root: string,
  work: StartedWork,
): Promise<Extract<WorkStatus, { state: 'ended' }> | null> {
  // Its shell records the end and dies at once, in this order.
  if (isSupervised(work)) return null
  const folder = join(root, work.name)
  const [exit, reason] = await Promise.all([readText(join(folder, 'exit')), readText(join(folder, 'reason'))])
  const status = /^(\d+)\n$/.exec(exit?.text ?? '')?.[1]
  if (exit && status) {
    const asked = reason && reason.at <= exit.at
    const why = asked ? (reason.text as EndReason) : 'exited'
    return { state: 'ended', ...times(work, exit), ...meaningOf(Number(status)), reason: why }
  }
  if (exit?.text === 'lost\n') {
    const why = (reason?.text as EndReason | undefined) ?? 'lost'
    return { state: 'ended', ...times(work, exit), exitCode: null, signal: reason && 'SIGKILL', reason: why }
  }
  if (await recordLoss(folder, work)) return findEnd(root, work)
  // Somebody removed it while we looked.
  const at = new Date()
  return { state: 'ended', ...times(work, { text: '', at }), exitCode: null, signal: null, reason: 'lost' }
}

/**
 * Its shell is gone without a word: nothing may run on unwatched, and the time of the discovery has to do.
 * False when the folder is gone too.
 */
async function recordLoss(folder: string, { leader }: StartedWork): Promise<boolean> {
  for (const { pid } of sessionMembers(leader)) signalProcess(pid, 'SIGKILL')
  await rm(join(folder, 'exit'), { force: true })
  const written = writeFile(join(folder, 'exit'), 'lost\n', { flag: 'wx', mode: 0o600 }).then(() => true)
  return written.catch((error) => {
    if (error.code === 'ENOENT') return false
    ignoreExisting(error)
    return true
  })
}

const times = (work: StartedWork, exit: TextFile) => ({
  startedAt: work.startedAt.toISOString(),
  endedAt: exit.at.toISOString(),
})

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error
}

/** The port that the work chose, or null while it has not said. */
export async function readPort(root: string, name: string): Promise<number | null> {
  const port = /^\d{1,5}\n?$/.exec((await readText(join(root, name, 'port')))?.text ?? '')
  return port && Number(port[0])
}

export async function readLog(root: string, name: string, offset: number, maxBytes: number): Promise<Buffer> {
  const file = await open(join(root, name, 'log'), 'r').catch((error) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (!file) return Buffer.alloc(0)
  try {
    const { size } = await file.stat()
    const start = offset < 0 ? Math.max(0, size + offset) : offset
    const left = Math.max(0, Math.min(maxBytes, size - start))
    const { bytesRead, buffer } = await file.read(Buffer.alloc(left), 0, left, start)
    return buffer.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}
