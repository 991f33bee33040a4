import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { constants } from 'node:os'
import type { RunnableSpec } from './work-folder.ts'

/**
 * The small shell that stays with the work, as leader of its own session, and outlives the server.
 *
 * Creating the file `process` is the claim: of any number of shells started for one work, one goes on. The signals
 * that ask the work to end reach its whole group, so the shell catches them (caught, not ignored: the work must start
 * with the defaults). When the work ends, what it left in its group ends with it. Built-in commands only: nothing is
 * looked up in the PATH of the work.
 */
const script = `
trap : HUP INT QUIT TERM
{ echo 500 > /proc/self/oom_score_adj; ulimit -c 0; } 2>/dev/null
set -C
read -r _shim_stat < /proc/$$/stat
{ echo "$_shim_stat" > "$1/process"; } 2>/dev/null || exit 0
set +C
_shim_folder=$1
shift
"$@"
echo $? > "$_shim_folder/exit"
kill -KILL 0
`

/**
 * Starts the shell for a work; all output goes to `log`, an open file. Resolves when the shell runs, which says
 * nothing about the work. Nothing else of this process is inherited: neither files nor environment.
 */
export async function startShim(folder: string, spec: RunnableSpec, log: number): Promise<void> {
  const nothing = await open('/dev/null', 'r')
  try {
    const stdio: (number | 'ignore')[] = ['ignore', log, log]
    for (const file of inheritableFiles()) stdio[file] = nothing.fd
    const child = spawn('/bin/sh', ['-c', script, 'work', folder, ...spec.command], {
      cwd: spec.folder,
      env: spec.env,
      stdio: Array.from(stdio, (file) => file ?? 'ignore'),
      detached: true,
    })
    await once(child, 'spawn')
    child.unref()
  } finally {
    await nothing.close()
  }
}

/**
 * Open files that a child would inherit: never ours, Node.js closes these, but those that whoever started the server
 * left open. A pipe among them would make that program wait for the end of the work.
 */
function inheritableFiles(): number[] {
  const closedOnExec = 0o2000000
  return readdirSync('/proc/self/fdinfo')
    .map(Number)
    .filter((file) => file > 2 && (flagsOf(file) & closedOnExec) === 0)
}

function flagsOf(file: number): number {
  try {
    const info = readFileSync(`/proc/self/fdinfo/${file}`, 'latin1')
    return Number.parseInt(/^flags:\s*(\d+)/m.exec(info)?.[1] ?? '', 8)
  } catch {
    // It was closed since: it was the listing itself.
    return 0o2000000
  }
}

const signalNames = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]))

/**
 * What the recorded status means. A shell can't tell a signal from an exit code of 128 and more; codes that stand for
 * a signal are read as that signal, as everybody does who knows such codes.
 */
export function meaningOf(status: number): { exitCode: number | null; signal: string | null } {
  const signal = status > 128 ? signalNames.get(status - 128) : undefined
  return signal ? { exitCode: null, signal } : { exitCode: status, signal: null }
}
