import { stat, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import {
  allProcesses,
  type ProcessStat,
  proportionalBytes,
  residentBytes,
  sessionMembers,
  signalProcess,
} from './session-processes.ts'
import { type EndReason, isSupervised, type StartedWork } from './work-folder.ts'

/** Looks after running work: its limits, its log, and what it leaves behind when it ends. */
export interface LimitWatch {
  add(work: StartedWork): void
  /** The running work of a name, or undefined when it is not under watch or has ended. */
  running(name: string): StartedWork | undefined
  /** As last measured, what processes share counted in each. */
  memoryBytes(name: string): number | undefined
}

const sampleMs = 1000
const timeGraceMs = 10_000

interface Watched {
  work: StartedWork
  memoryBytes?: number
  ending: boolean
}

export interface WatchOptions {
  root: string
  log: { warn(fields: object, message: string): void }
  /** What a log may occupy on disk. */
  logBytes: number
  end: (work: StartedWork, reason: EndReason, graceMs: number) => Promise<void>
}

export function watchLimits({ root, log, logBytes, end }: WatchOptions): LimitWatch {
  const watched = new Map<string, Watched>()
  let scheduled = false

  const look = async (entry: Watched, processes: ProcessStat[]) => {
    const { work } = entry
    if (!isSupervised(work)) {
      if (watched.get(work.name) === entry) watched.delete(work.name)
      for (const { pid } of sessionMembers(work.leader)) signalProcess(pid, 'SIGKILL')
      return
    }
    const members = sessionMembers(work.leader, processes)
    entry.memoryBytes = residentBytes(members)
    await boundLog(join(root, work.name, 'log'), logBytes)
    const excess = entry.ending ? null : excessOf(entry, members)
    if (excess) enforce(entry, excess)
  }
  const enforce = (entry: Watched, excess: 'memory' | 'time') => {
    const { work, memoryBytes } = entry
    entry.ending = true
    log.warn(
      { work: work.name, limits: work.spec.limits, memoryBytes },
      `work is over its ${excess} limit and is ended`,
    )
    end(work, excess, excess === 'time' ? timeGraceMs : 0).catch((error) => {
      entry.ending = false
      log.warn({ work: work.name, err: error }, 'could not end work that is over its limit')
    })
  }
  const sample = async () => {
    const processes = allProcesses()
    for (const entry of watched.values()) {
      await look(entry, processes).catch((error) =>
        log.warn({ work: entry.work.name, err: error }, 'could not look after running work'),
      )
    }
  }
  const schedule = () => {
    if (scheduled || watched.size === 0) return
    scheduled = true
    const run = async () => {
      await sample().catch((error) => log.warn({ err: error }, 'could not look after running work'))
      scheduled = false
      schedule()
    }
    setTimeout(() => void run(), sampleMs).unref()
  }
  return {
    add(work) {
      if (watched.get(work.name)?.work.leader.start !== work.leader.start)
        watched.set(work.name, { work, ending: false })
      schedule()
    },
    running(name) {
      const work = watched.get(name)?.work
      return work && isSupervised(work) ? work : undefined
    },
    memoryBytes: (name) => watched.get(name)?.memoryBytes,
  }
}

async function boundLog(path: string, logBytes: number): Promise<void> {
  // What the file occupies, not its length: it becomes sparse, because the writer goes on at its position and what
  // was before turns into a hole. So offsets keep their meaning; what was dropped reads as zero bytes.
  const occupied = ((await stat(path).catch(() => null))?.blocks ?? 0) * 512
  if (occupied > logBytes) await truncate(path)
}

function excessOf({ work, memoryBytes = 0 }: Watched, members: ProcessStat[]): 'memory' | 'time' | null {
  const { limits } = work.spec
  if (limits?.seconds !== undefined && Date.now() - work.startedAt.getTime() > limits.seconds * 1000) return 'time'
  if (limits?.memoryBytes === undefined || memoryBytes <= limits.memoryBytes) return null
  // Forked workers share most of their memory: only a closer look shows whether they really have too much.
  return (proportionalBytes(members) || memoryBytes) > limits.memoryBytes ? 'memory' : null
}
