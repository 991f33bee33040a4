import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { computeSuite, whenEnded, whenLogged } from '../compute.suite.ts'
import type { Compute, WorkSpec } from '../compute.ts'
import { localCompute } from './local.driver.ts'
import { statOf } from './session-processes.ts'

const log = { warn: () => {} }
let outer: string
let folder: string
let count = 0
let compute: Compute
const made: Compute[] = []

const open = async (path: string) => {
  const opened = await localCompute({ folder: path, log })
  made.push(opened)
  return opened
}
beforeAll(async () => {
  outer = await mkdtemp(join(tmpdir(), 'compute-'))
})
beforeEach(async () => {
  folder = join(outer, `${count++}`)
  compute = await open(folder)
})
afterAll(async () => {
  for (const each of made) for (const { handle } of await each.list()) await each.remove(handle)
  await rm(outer, { recursive: true, force: true })
})

computeSuite('localCompute', () => open(join(outer, 'suite')))

const work = (script: string, more: Partial<WorkSpec> = {}): WorkSpec => ({
  name: 'work',
  command: ['/bin/sh', '-c', script],
  env: {},
  folder: outer,
  ...more,
})
const lives = (pid: number) => statOf(pid)?.alive === true
const whenGone = async (pid: number) => {
  for (let tries = 0; tries < 3000 && lives(pid); tries++) await sleep(20)
  return !lives(pid)
}
const pidIn = (output: string, label: string) => Number(new RegExp(`${label}=(\\d+)`).exec(output)?.[1])

/** A server in a process of its own, which starts work and is then killed without a chance to say goodbye. */
async function startAndDie(spec: WorkSpec): Promise<void> {
  const program = `
    import { localCompute } from ${JSON.stringify(new URL('./local.driver.ts', import.meta.url).href)}
    const compute = await localCompute({ folder: ${JSON.stringify(folder)}, log: console })
    await compute.start(JSON.parse(process.argv[1]))
    process.stdout.write('started')
    setInterval(() => {}, 1000)
  `
  const server = spawn(process.execPath, ['--input-type=module', '-e', program, JSON.stringify(spec)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  })
  await once(server.stdout, 'data')
  process.kill(-server.pid!, 'SIGKILL')
  await once(server, 'exit')
}

test('work survives kill -9 of its server and is adopted: state, logs, stop', async () => {
  await startAndDie(work('echo pid=$$; trap "echo saved; exit 7" TERM; while :; do sleep 0.05; done'))
  const next = await open(folder)
  const [found] = await next.list()
  expect(found).toMatchObject({ handle: { driver: 'local', name: 'work' }, status: { state: 'running' } })
  await whenLogged(next, found!.handle, 'pid=')
  await next.start(work('echo never'))
  expect(await next.stop(found!.handle, 5000)).toMatchObject({ exitCode: 7, reason: 'stopped' })
  expect((await next.logs(found!.handle, 0, 1000)).toString()).toMatch(/^pid=\d+\n(Terminated\n)?saved\n$/)
})

test('work that ends while no server lives keeps its exit code', async () => {
  await startAndDie(work('sleep 0.5; exit 9'))
  await sleep(1000)
  const next = await open(folder)
  const [found] = await next.list()
  expect(await whenEnded(next, found!.handle)).toMatchObject({ state: 'ended', exitCode: 9, reason: 'exited' })
})

test('limits hold again after a server restart, without anybody asking', async () => {
  await startAndDie(work('echo pid=$$; sleep 60', { limits: { seconds: 1 } }))
  const next = await open(folder)
  const handle = { driver: 'local', name: 'work' }
  const pid = pidIn(await whenLogged(next, handle, 'pid='), 'pid')
  expect(await whenGone(pid)).toBe(true)
  expect(await whenEnded(next, handle)).toMatchObject({ reason: 'time' })
})

test('a server that died before anything ran has started nothing, and the next start does', async () => {
  await mkdir(join(folder, 'work', 'tmp'), { recursive: true })
  await writeFile(join(folder, 'work', 'spec.json'), '{}')
  expect(await compute.list()).toEqual([])
  const handle = await compute.start(work('echo once'))
  expect(await whenEnded(compute, handle)).toMatchObject({ exitCode: 0 })
})

test('two servers that start one work at once start it once', async () => {
  const other = await open(folder)
  const [handle] = await Promise.all([compute, other, compute, other].map((each) => each.start(work('echo once'))))
  await whenEnded(other, handle!)
  await sleep(200)
  expect((await compute.logs(handle!, 0, 1000)).toString()).toBe('once\n')
})

test('processes left behind end with the work, also those in other groups or sessions', async () => {
  const script = `
    (trap "" TERM HUP; sleep 61) & echo group=$!
    setsid sleep 62 & echo session=$!
    echo ready
    trap "exit 0" TERM; while :; do sleep 0.05; done`
  const handle = await compute.start(work(script))
  const output = await whenLogged(compute, handle, 'ready')
  const pids = ['group', 'session'].map((label) => pidIn(output, label))
  expect(pids.map(lives)).toEqual([true, true])
  expect(await compute.kill(handle)).toMatchObject({ reason: 'killed' })
  expect(pids.map(lives)).toEqual([false, false])
})

test('a background process of work that ended by itself does not stay', async () => {
  const handle = await compute.start(work('sleep 61 & echo left=$!; exit 0'))
  const pid = pidIn(await whenLogged(compute, handle, 'left='), 'left')
  expect(await whenEnded(compute, handle)).toMatchObject({ exitCode: 0, reason: 'exited' })
  expect(await whenGone(pid)).toBe(true)
})

test('lost is the end of work whose whole group was killed behind our back', async () => {
  const handle = await compute.start(work('sleep 60'))
  const status = await compute.status(handle)
  process.kill(-(status as { pid: number }).pid, 'SIGKILL')
  const end = await whenEnded(compute, handle)
  expect(end).toMatchObject({ exitCode: null, signal: null, reason: 'lost' })
  expect(await compute.status(handle)).toEqual(end)
})

test('a work whose shell was killed does not run on unwatched', async () => {
  const handle = await compute.start(work('echo child=$$; sleep 60'))
  const pid = pidIn(await whenLogged(compute, handle, 'child='), 'child')
  const status = await compute.status(handle)
  process.kill((status as { pid: number }).pid, 'SIGKILL')
  expect(await whenEnded(compute, handle)).toMatchObject({ reason: 'lost' })
  expect(await whenGone(pid)).toBe(true)
})

test('an endless log stays small on disk and goes on at its offset', async () => {
  const bounded = await localCompute({ folder, log, logBytes: 1_000_000 })
  const script = 'head -c 3000000 /dev/zero | tr "\\0" x; echo full; while :; do echo after; sleep 0.1; done'
  const handle = await bounded.start(work(script))
  const path = join(folder, 'work', 'log')
  const cut = async () => {
    const { size, blocks } = await stat(path)
    return size > 3_000_005 && blocks * 512 < 100_000 ? size : null
  }
  let size = await cut()
  for (let tries = 0; tries < 3000 && size === null; tries++) size = await sleep(20).then(cut)
  expect((size! - 3_000_005) % 6).toBe(0)
  expect((await bounded.logs(handle, size! - 6, 6)).toString()).toBe('after\n')
  await bounded.remove(handle)
})

test('work that another server removed is forgotten, and the rest is still looked after', async () => {
  const warnings: object[] = []
  const watching = await localCompute({ folder, log: { warn: (fields) => void warnings.push(fields) } })
  const removed = await watching.start(work('sleep 60', { name: 'removed' }))
  const limited = await watching.start(work('sleep 60', { name: 'limited', limits: { seconds: 1 } }))
  await compute.remove(removed)
  expect(await whenEnded(watching, limited)).toMatchObject({ reason: 'time' })
  expect(warnings).toEqual([expect.objectContaining({ work: 'limited' })])
})

test('a process id that was given to another process is not taken for the work', async () => {
  const handle = await compute.start(work('sleep 60'))
  const claim = join(folder, 'work', 'process')
  const original = await readFile(claim, 'utf8')
  // The record of a work of before: its process id belongs to this very test now.
  await writeFile(claim, readFileSync('/proc/self/stat', 'latin1').replace(/(?<=\) (\S+ ){19})\d+/, '1'))
  const later = await open(folder)
  expect(await later.status(handle)).toMatchObject({ state: 'ended', reason: 'lost' })
  await later.kill(handle)
  process.kill(-Number.parseInt(original, 10), 'SIGKILL')
})

test('nothing of the server but its output reaches the work, and the kernel takes it first', async () => {
  const secret = await import('node:fs').then(({ openSync }) => openSync('/etc/passwd', 'r'))
  const handle = await compute.start(work('ls -l /proc/$$/fd; cat /proc/$$/oom_score_adj; ulimit -c'))
  await whenEnded(compute, handle)
  const output = (await compute.logs(handle, 0, 10_000)).toString()
  expect(secret).toBeGreaterThan(2)
  const open = output
    .split('\n')
    .filter((line) => line.includes('-> '))
    .map((line) => line.split('-> ')[1])
  const out = join(folder, 'work', 'log')
  expect(open.slice(0, 3)).toEqual(['/dev/null', out, out])
  expect(open.slice(3).filter((path) => path !== '/dev/null')).toEqual([])
  expect(output).toMatch(/\n500\n0\n$/)
})

test('the records are private', async () => {
  await whenEnded(compute, await compute.start(work('true', { env: { PASSWORD: 'x' } })))
  expect((await stat(join(folder, 'work'))).mode & 0o777).toBe(0o700)
  expect((await stat(join(folder, 'work', 'spec.json'))).mode & 0o777).toBe(0o600)
})
