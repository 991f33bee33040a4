import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestPlatform } from '../../../test/harness.ts'
import type { SystemCtx } from '../context.ts'
import { transaction } from '../db/transaction.ts'
import { defineRun, type RunKind, type Schedule, step } from './define-run.ts'
import { cancelRun, getRun, listSteps, readRunLog, retryRun, startRun } from './runs.ts'
import { startWorker, type Worker } from './worker.ts'

let platform: TestPlatform
let ctx: SystemCtx
const workers: Worker[] = []
const children: ChildProcess[] = []

beforeAll(async () => {
  platform = await startTestPlatform({ PLATFORM_MLOPS_ROLES: 'web' })
  ctx = { ...platform.services, kind: 'system', scope: 'system', actor: null, requestId: 'test', audit: null }
})
afterEach(async () => {
  for (const worker of workers.splice(0)) await worker.stop()
  for (const child of children.splice(0)) child.kill('SIGKILL')
})
afterAll(() => platform?.stop())

const system = <T>(work: Parameters<typeof transaction<T>>[2]) => transaction(platform.services.db, 'system', work)
const start = (kind: RunKind, input: unknown = {}, subject?: string) =>
  system((tx) => startRun(tx, ctx, kind, input, subject ? { subject } : {}))
const stateOf = async (id: string) => (await system((tx) => getRun(tx, id))).state
const ended = (id: string, state: string) => eventually(async () => (await stateOf(id)) === state)
const logOf = async (id: string) => (await Array.fromAsync(readRunLog(system, id))).join('')

async function work(kinds: RunKind[], options: { schedules?: Schedule[]; pollMs?: number } = {}): Promise<Worker> {
  const worker = await startWorker({ services: platform.services, kinds, ...options })
  workers.push(worker)
  return worker
}

describe('a run', () => {
  test('goes through its steps in order, hands outputs on, keeps the log, and tells its feature of every change', async () => {
    const told: string[] = []
    const kind = defineRun<{ n: number }>({
      kind: 'test.plain',
      steps: [
        step('double', 'Double it', async (s) => {
          s.log('doubling')
          s.progress(0.5, 'half way')
          return s.input.n * 2
        }),
        step('skip', 'Not needed', async (s) => s.skip('nothing to do')),
        step('square', 'Square it', async (s) => {
          s.log(`got ${s.output<number>('double')}`)
          return s.output<number>('double') ** 2
        }),
      ],
      changed: async (_tx, change) => {
        if (change.what === 'run') told.push(change.state)
        if (change.what === 'step') told.push(`${change.step.id} ${change.step.state}`)
      },
    })
    await work([kind])
    const id = await start(kind, { n: 3 })
    await ended(id, 'succeeded')
    const steps = await system((tx) => listSteps(tx, id))
    expect(steps.map((s) => [s.id, s.state, s.progress])).toEqual([
      ['double', 'succeeded', 1],
      ['skip', 'skipped', 1],
      ['square', 'succeeded', 1],
    ])
    expect(await logOf(id)).toBe('doubling\ngot 6\n')
    expect(told[0]).toBe('running')
    expect(told.at(-1)).toBe('succeeded')
    expect(told.filter((t) => t.endsWith(' succeeded'))).toEqual(['double succeeded', 'square succeeded'])
    expect((await system((tx) => getRun(tx, id))).progress).toBe(1)
  })

  test('fails with the message of its step; a retry repeats only what had not succeeded', async () => {
    const count = { first: 0, second: 0 }
    const kind = defineRun({
      kind: 'test.flaky',
      steps: [
        step('first', 'First', async () => ++count.first),
        step('second', 'Second', async () => {
          if (++count.second === 1) throw new Error('the disk was full')
        }),
      ],
    })
    await work([kind])
    const id = await start(kind)
    await ended(id, 'failed')
    const run = await system((tx) => getRun(tx, id))
    expect(run.error).toEqual({ message: 'the disk was full', step: 'second' })
    expect(await logOf(id)).toContain('Second failed: the disk was full')
    await system((tx) => retryRun(tx, id))
    await ended(id, 'succeeded')
    expect(count).toEqual({ first: 1, second: 2 })
    await expect(system((tx) => retryRun(tx, id))).rejects.toThrow('Only a failed or canceled run')
  })

  test('does not exist when the transaction that started it rolls back', async () => {
    const kind = defineRun({ kind: 'test.rolledBack', steps: [step('a', 'A', async () => 1)] })
    let id = ''
    await expect(
      system(async (tx) => {
        id = await startRun(tx, ctx, kind, {})
        throw new Error('changed my mind')
      }),
    ).rejects.toThrow()
    await expect(system((tx) => getRun(tx, id))).rejects.toThrow('no such run')
  })

  test('is refused while one of its kind on the same subject is live', async () => {
    const kind = defineRun({ kind: 'test.single', steps: [step('a', 'A', async () => 1)] })
    await start(kind, {}, 'thing:1')
    await expect(start(kind, {}, 'thing:1')).rejects.toMatchObject({ code: 'conflict' })
    await work([kind])
    await eventually(async () => start(kind, {}, 'thing:1').catch(() => null))
  })

  test('a canceled one that waits for room ends at once, without a step of it being run', async () => {
    const release = Promise.withResolvers<void>()
    const begun: string[] = []
    const kind = defineRun<{ name: string }>({
      kind: 'test.crowded',
      maxConcurrent: 1,
      steps: [
        step('hold', 'Hold the only place', async (s) => {
          begun.push(s.input.name)
          await release.promise
        }),
      ],
    })
    await work([kind])
    const first = await start(kind, { name: 'first' })
    await eventually(async () => begun.length === 1)
    const second = await start(kind, { name: 'second' })
    await system((tx) => cancelRun(tx, second, 'not wanted'))
    await ended(second, 'canceled')
    expect(await stateOf(first)).toBe('running')
    release.resolve()
    await ended(first, 'succeeded')
    expect(begun).toEqual(['first'])
  })

  test('keeps to the limit of its kind', async () => {
    let now = 0
    let most = 0
    const kind = defineRun({
      kind: 'test.limited',
      maxConcurrent: 2,
      steps: [
        step('a', 'A', async () => {
          most = Math.max(most, ++now)
          await new Promise((resolve) => setTimeout(resolve, 30))
          now--
        }),
      ],
    })
    await work([kind])
    const ids = await Promise.all(Array.from({ length: 7 }, () => start(kind)))
    for (const id of ids) await ended(id, 'succeeded')
    expect(most).toBe(2)
  })
})

describe('cancel', () => {
  const waiting = (graceMs?: number) =>
    defineRun({
      kind: `test.waiting${graceMs ?? ''}`,
      ...(graceMs ? { cancelGraceMs: graceMs } : {}),
      steps: [
        step('wait', 'Wait', (s) =>
          graceMs
            ? new Promise(() => undefined)
            : new Promise((_resolve, reject) => s.signal.addEventListener('abort', () => reject(s.signal.reason))),
        ),
        step('after', 'After', async () => 1),
      ],
    })

  test('reaches a running step at once and ends the run as canceled', async () => {
    const kind = waiting()
    await work([kind], { pollMs: 60_000 })
    const id = await start(kind)
    await eventually(async () => (await stateOf(id)) === 'running')
    await system((tx) => cancelRun(tx, id, 'no longer needed'))
    await ended(id, 'canceled')
    expect((await system((tx) => listSteps(tx, id))).map((s) => s.state)).toEqual(['canceled', 'canceled'])
    expect((await system((tx) => getRun(tx, id))).error).toMatchObject({ message: 'no longer needed' })
  })

  test('leaves a step behind that does not listen, after its grace', async () => {
    const kind = waiting(200)
    await work([kind])
    const id = await start(kind)
    await eventually(async () => (await stateOf(id)) === 'running')
    await system((tx) => cancelRun(tx, id, 'enough'))
    await ended(id, 'canceled')
  })

  test('ends a run that had not begun', async () => {
    const kind = waiting()
    const id = await start(kind)
    await system((tx) => cancelRun(tx, id, 'never mind'))
    await work([kind])
    await ended(id, 'canceled')
  })
})

describe('a worker that stops', () => {
  test('gives its runs back, and another goes on at the same step with what was saved', async () => {
    const seen: unknown[] = []
    const kind = defineRun({
      kind: 'test.handedOver',
      steps: [
        step('once', 'Once', async () => seen.push('once')),
        step('long', 'Long', async (s) => {
          seen.push(s.saved())
          if (s.saved()) return
          await s.save({ handle: 'job-1' })
          await new Promise((_resolve, reject) => s.signal.addEventListener('abort', () => reject(s.signal.reason)))
        }),
      ],
    })
    const first = await work([kind])
    const id = await start(kind)
    await eventually(async () => seen.length === 2)
    await eventually(
      async () =>
        (
          await system((tx) =>
            tx
              .selectFrom('runSteps')
              .select('saved')
              .where('runId', '=', id)
              .where('stepId', '=', 'long')
              .executeTakeFirst(),
          )
        )?.saved,
    )
    await first.stop()
    expect(await stateOf(id)).toBe('pending')
    await work([kind])
    await ended(id, 'succeeded')
    expect(seen).toEqual(['once', null, { handle: 'job-1' }])
  })
})

describe('kill -9 of a worker', () => {
  async function workerProcess(): Promise<{ child: ChildProcess; line(text: string): Promise<void> }> {
    const script = new URL('../../../test/run-worker.process.ts', import.meta.url).pathname
    const child = spawn(process.execPath, [script, platform.database.ownerUrl, platform.dataDir], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    children.push(child)
    const lines: string[] = []
    createInterface({ input: child.stdout! }).on('line', (text) => lines.push(text))
    return { child, line: (text) => eventually(async () => lines.includes(text)).then(() => undefined) }
  }

  test.each(['one', 'two', 'three'])(
    'in the middle of step %s: another goes on there, nothing is lost or done twice',
    async (at) => {
      const { crashing } = await import('../../../test/run-worker.process.ts')
      const { child, line } = await workerProcess()
      await line('ready')
      const id = await start(crashing, { stopIn: at })
      await line(`in ${at}`)
      child.kill('SIGKILL')
      const second = await workerProcess()
      await second.line('ready')
      await ended(id, 'succeeded')
      const log = (await logOf(id)).trim().split('\n')
      // Steps before the kill ran once; the interrupted one began twice and ended once.
      expect(log.filter((l) => l.startsWith('done'))).toEqual(['done one', 'done two', 'done three'])
      expect(log.filter((l) => l === `begin ${at}`)).toHaveLength(2)
      expect((await system((tx) => getRun(tx, id))).interruptions).toBe(1)
    },
  )
})

describe('a schedule', () => {
  test('starts its run once when due, with two workers looking, and comes again', async () => {
    let times = 0
    const kind = defineRun({ kind: 'test.periodic', steps: [step('tick', 'Tick', async () => ++times)] })
    const schedules = [{ name: 'test-tick', every: 200, kind: 'test.periodic', input: {} }]
    await work([kind], { schedules, pollMs: 40 })
    await work([kind], { schedules, pollMs: 40 })
    await eventually(async () => times >= 3)
    const rows = await system((tx) =>
      tx.selectFrom('runs').select('createdAt').where('kind', '=', 'test.periodic').orderBy('id').execute(),
    )
    const gaps = rows.slice(1).map((row, i) => row.createdAt.getTime() - rows[i]!.createdAt.getTime())
    expect(Math.min(...gaps)).toBeGreaterThan(150)
  })
})
