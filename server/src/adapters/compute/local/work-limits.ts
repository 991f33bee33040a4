import { stat, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { allProcesses, proportionalBytes, residentBytes, sessionMembers, signalProcess } from './session-processes.ts'
import { type EndReason, findEnd, type StartedWork } from './work-folder.ts'

/** Looks after running work: its limits, its log, and what it leaves behind when it ends. */
export interface LimitWatch {
  add(work: StartedWork): void
  /** As last measured, what processes share counted in each. */
  memoryBytes(name: string): number | undefined
}

const sampleMs = 500
const timeGraceMs = 10_000
const logBytes = 256 * 1024 * 1024

interface Watched {
  work: StartedWork
  memoryBytes?: number
  ending: boolean
}

type End = (work: StartedWork, reason: EndReason, graceMs: number) => Promise<void>

export function watchLimits(root: string, log: { warn(fields: object, message: string): void }, end: End): LimitWatch {
  const watched = new Map<string, Watched>()
  let scheduled = false

  const sample = async () => {
    const processes = allProcesses()
    for (const [name, entry] of watched) {
      const members = sessionMembers(entry.work.leader, processes)
      if (await findEnd(root, entry.work)) {
        watched.delete(name)
        for (const { pid } of sessionMembers(entry.work.leader)) signalProcess(pid, 'SIGKILL')
        continue
      }
      entry.memoryBytes = residentBytes(members)
      await boundLog(join(root, name, 'log'))
      const excess = entry.ending ? null : excessOf(entry, members)
      if (!excess) continue
      entry.ending = true
      log.warn(
        { work: name, limits: entry.work.spec.limits, memoryBytes: entry.memoryBytes },
        `over its ${excess} limit`,
      )
      end(entry.work, excess, excess === 'time' ? timeGraceMs : 0).catch((error) => {
        entry.ending = false
        log.warn({ work: name, err: error }, 'could not end work that is over its limit')
      })
    }
  }
  const schedule = () => {
    if (scheduled || watched.size === 0) return
    scheduled = true
    const tick = () =>
      sample()
        .catch((error) => log.warn({ err: error }, 'could not look after running work'))
        .finally(() => {
          scheduled = false
          schedule()
        })
    setTimeout(tick, sampleMs).unref()
  }
  return {
    add(work) {
      if (watched.get(work.name)?.work.leader.start !== work.leader.start) {
        watched.set(work.name, { work, ending: false })
      }
      schedule()
    },
    memoryBytes: (name) => watched.get(name)?.memoryBytes,
  }
}

async function boundLog(path: string): Promise<void> {
  // What the file occupies, not its length: it becomes sparse, because the writer goes on at its position and what
  // was before turns into a hole. So offsets keep their meaning; what was dropped reads as zero bytes.
  const occupied = ((await stat(path).catch(() => null))?.blocks ?? 0) * 512
  if (occupied > logBytes) await truncate(path)
}

function excessOf(
  { work, memoryBytes = 0 }: Watched,
  members: Parameters<typeof residentBytes>[0],
): 'memory' | 'time' | null {
  const { limits } = work.spec
  if (limits?.seconds !== undefined && Date.now() - work.startedAt.getTime() > limits.seconds * 1000) return 'time'
  if (limits?.memoryBytes === undefined || memoryBytes <= limits.memoryBytes) return null
  // Forked workers share most of their memory: only a closer look shows whether they really have too much.
  return (proportionalBytes(members) || memoryBytes) > limits.memoryBytes ? 'memory' : null
}
