import { readdirSync, readFileSync } from 'node:fs'

/** One process, as the kernel tells. @source proc_pid_stat(5) */
export interface ProcessStat {
  pid: number
  parent: number
  session: number
  /** False for a zombie: it has ended and only waits for its parent to notice. */
  alive: boolean
  /** Start time in clock ticks since boot; with the pid it names one process for good. */
  start: string
}

/** Reads a line of `/proc/<pid>/stat`; null for anything else. */
export function parseStat(line: string): ProcessStat | null {
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
  const [state, parent, , session] = fields
  const start = fields[19]
  if (!state || !start) return null
  const alive = !'ZX'.includes(state)
  return { pid: Number.parseInt(line, 10), parent: Number(parent), session: Number(session), alive, start }
}

// These files live in memory: reading them synchronously takes microseconds, a thread's answer takes longer.
function readProc(path: string): string {
  try {
    return readFileSync(`/proc/${path}`, 'latin1')
  } catch {
    return ''
  }
}

export const statOf = (pid: number): ProcessStat | null => parseStat(readProc(`${pid}/stat`))

/** All living processes of this machine that we can see. */
export function allProcesses(): ProcessStat[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => parseStat(readProc(`${name}/stat`)))
    .filter((stat) => stat !== null)
    .filter((stat) => stat.alive)
}

/**
 * The living processes of the session that `leader` opened, and their descendants in other sessions; without the
 * leader itself. A leader whose pid belongs to a younger process now has no session left.
 */
export function sessionMembers(leader: { pid: number; start: string }, processes = allProcesses()): ProcessStat[] {
  const holder = processes.find((process) => process.pid === leader.pid)
  if (holder && holder.start !== leader.start) return []
  const members = new Map(
    processes.filter((process) => process.session === leader.pid).map((process) => [process.pid, process]),
  )
  for (let before = -1; before < members.size; ) {
    before = members.size
    for (const process of processes) if (members.has(process.parent)) members.set(process.pid, process)
  }
  members.delete(leader.pid)
  return [...members.values()]
}

/** Resident bytes of processes, each counted whole. */
export function residentBytes(processes: ProcessStat[]): number {
  return sumKiB(processes, 'status', /^VmRSS:\s*(\d+)/m)
}

/** Resident bytes of processes, with what they share counted once. Slower: the kernel walks their page tables. */
export function proportionalBytes(processes: ProcessStat[]): number {
  return sumKiB(processes, 'smaps_rollup', /^Pss:\s*(\d+)/m)
}

function sumKiB(processes: ProcessStat[], file: string, field: RegExp): number {
  return processes.reduce((sum, { pid }) => sum + Number(field.exec(readProc(`${pid}/${file}`))?.[1] ?? 0) * 1024, 0)
}

/** Sends a signal to a process, or to a group when negative; one that has ended, or is another user's, is no error. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}
