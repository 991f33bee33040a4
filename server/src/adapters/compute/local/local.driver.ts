import { randomUUID } from 'node:crypto'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Compute, WorkHandle, WorkSpec, WorkStatus } from '../compute.ts'
import { materialiseImage, removeImages } from './image-root.ts'
import { sessionMembers, signalProcess } from './session-processes.ts'
import {
  type EndReason,
  findEnd,
  findStarted,
  isSupervised,
  listNames,
  type RunnableSpec,
  readLog,
  readPort,
  recordReason,
  recordSpec,
  type StartedWork,
  workName,
} from './work-folder.ts'
import { type LimitWatch, watchLimits } from './work-limits.ts'
import { startShim } from './work-shim.ts'

export interface LocalComputeOptions {
  /** Holds a folder per work; private. */
  folder: string
  log: { warn(fields: object, message: string): void }
  /** What the log of a work may occupy before it is emptied, in bytes; 256 MiB unless told. */
  logBytes?: number
}

const driver = 'local'
const host = '127.0.0.1'
const pollMs = 20
/** How long killed processes may take to vanish before the kill counts as done anyway (they may hang in the kernel). */
const vanishMs = 10_000

/**
 * Work as process groups of this machine, each under a small shell of its own that records how it ended. Server
 * processes come and go meanwhile; several may share the folder. Needs Linux (`/proc`), and no privilege.
 */
export async function localCompute({ folder, log, logBytes = 256 * 1024 ** 2 }: LocalComputeOptions): Promise<Compute> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const end = (work: StartedWork, reason: EndReason, graceMs: number) => endWork(folder, work, reason, graceMs)
  const watch = watchLimits({ root: folder, log, logBytes, end })
  for (const name of await listNames(folder)) await adopt(folder, name, watch)

  const started = async ({ name }: WorkHandle) => (workName.test(name) ? findStarted(folder, name) : null)
  const status = async (handle: WorkHandle): Promise<WorkStatus> => {
    // Asked many times a second while work runs: as long as its shell lives, no file has to be looked into.
    const work = watch.running(handle.name) ?? (await started(handle))
    if (!work) return { state: 'absent' }
    const ended = await findEnd(folder, work)
    if (ended) return ended
    watch.add(work)
    const memoryBytes = watch.memoryBytes(work.name)
    const port = work.spec.listens ? await readPort(folder, work.name) : null
    const address = port === null ? undefined : `${host}:${port}`
    return { state: 'running', pid: work.leader.pid, startedAt: work.startedAt.toISOString(), memoryBytes, address }
  }
  const endAs = async (handle: WorkHandle, reason: EndReason, graceMs: number) => {
    const work = await started(handle)
    if (work && !(await findEnd(folder, work))) await end(work, reason, graceMs)
    return status(handle)
  }
  return {
    async start(spec) {
      await startOnce(folder, spec)
      await adopt(folder, spec.name, watch)
      return { driver, name: spec.name }
    },
    status,
    stop: (handle, graceMs) => endAs(handle, 'stopped', graceMs),
    kill: (handle) => endAs(handle, 'killed', 0),
    logs: async ({ name }, offset, maxBytes) =>
      workName.test(name) ? readLog(folder, name, offset, maxBytes) : Buffer.alloc(0),
    async remove(handle) {
      await endAs(handle, 'killed', 0)
      if (workName.test(handle.name)) await removeFolder(folder, handle.name)
    },
    async list() {
      const handles = (await listNames(folder)).map((name) => ({ driver, name }))
      const all = await Promise.all(handles.map(async (handle) => ({ handle, status: await status(handle) })))
      return all.filter((work) => work.status.state !== 'absent')
    },
    async prepareImage(image, signal) {
      await materialiseImage({ ...image, folder: imagesOf(folder), signal })
    },
    keepImages: (digests) => removeImages(imagesOf(folder), digests),
  }
}

/** Beside the works, under a name that no work can have. */
const imagesOf = (root: string) => join(root, '.images')

/** Takes running work under watch, and ends what ended work left behind in its session. */
async function adopt(root: string, name: string, watch: LimitWatch): Promise<void> {
  const work = await findStarted(root, name)
  if (!work) return
  if (await findEnd(root, work)) for (const { pid } of sessionMembers(work.leader)) signalProcess(pid, 'SIGKILL')
  else watch.add(work)
}

async function startOnce(root: string, spec: WorkSpec): Promise<void> {
  if (!workName.test(spec.name)) throw new Error(`not a name for work: ${JSON.stringify(spec.name)}`)
  if (await findStarted(root, spec.name)) return
  const folder = join(root, spec.name)
  const complete = await runnable(root, spec)
  await mkdir(join(folder, 'tmp'), { recursive: true, mode: 0o700 })
  await recordSpec(folder, complete)
  // Not in append mode: the position then outlives a truncation, which is how an endless log is kept small.
  const log = await open(join(folder, 'log'), 'r+').catch(() => open(join(folder, 'log'), 'w', 0o600))
  try {
    await startShim(folder, complete, log.fd)
  } finally {
    await log.close()
  }
  for (const deadline = Date.now() + vanishMs; !(await findStarted(root, spec.name)); await sleep(2)) {
    if (Date.now() > deadline) throw new Error(`${spec.name} did not start`)
  }
}

/** What is started in the end: the image resolved to files of this machine, the environment complete. */
async function runnable(root: string, { image, ...spec }: WorkSpec): Promise<RunnableSpec> {
  const from = image && (await materialiseImage({ ...image, folder: imagesOf(root) }))
  const command = spec.command.length > 0 ? spec.command : (from?.command ?? [])
  if (!isAbsolute(command[0] ?? '')) throw new Error(`the program of ${spec.name} needs an absolute path`)
  const folder = spec.folder ?? from?.workingFolder
  if (folder === undefined) throw new Error(`${spec.name} needs a working folder`)
  const own = join(root, spec.name)
  const env = {
    ...defaultEnvironment(own, spec.folder),
    ...from?.env,
    ...spec.env,
    ...(spec.listens ? { HOST: host, PORT: '0', PORT_FILE: join(own, 'port') } : {}),
  }
  return { ...spec, command, folder, env, image: image && { digest: image.digest } }
}

function defaultEnvironment(own: string, home: string | undefined): Record<string, string> {
  const temporary = join(own, 'tmp')
  return {
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    HOME: home ?? temporary,
    // Sockets are made there too (Python's worker processes), and their paths may have 107 bytes at most.
    TMPDIR: temporary.length <= 64 ? temporary : tmpdir(),
  }
}

async function endWork(root: string, work: StartedWork, reason: EndReason, graceMs: number): Promise<void> {
  await recordReason(root, work.name, reason)
  if (graceMs > 0) {
    signalProcess(-work.leader.pid, 'SIGTERM')
    if (await ended(root, work, graceMs)) return
  }
  // The shell is spared, so that it records the end; those it misses are found on the next round.
  for (const deadline = Date.now() + vanishMs; Date.now() < deadline; await sleep(pollMs)) {
    const members = sessionMembers(work.leader)
    for (const { pid } of members) signalProcess(pid, 'SIGKILL')
    if (members.length === 0 && (await findEnd(root, work))) return
  }
  if (isSupervised(work)) signalProcess(-work.leader.pid, 'SIGKILL')
}

async function ended(root: string, work: StartedWork, withinMs: number): Promise<boolean> {
  for (const deadline = Date.now() + withinMs; Date.now() < deadline; await sleep(pollMs)) {
    if (await findEnd(root, work)) {
      for (const { pid } of sessionMembers(work.leader)) signalProcess(pid, 'SIGKILL')
      return true
    }
  }
  return false
}

/** Out of sight first: the name is free at once, and a crash leaves nothing that looks like work. */
async function removeFolder(root: string, name: string): Promise<void> {
  const removed = join(root, `.removed-${randomUUID()}`)
  try {
    await rename(join(root, name), removed)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  await rm(removed, { recursive: true, force: true })
}
