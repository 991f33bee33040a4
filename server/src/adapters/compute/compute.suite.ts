import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Compute, WorkHandle, WorkSpec, WorkStatus } from './compute.ts'

export type EndedStatus = Extract<WorkStatus, { state: 'ended' }>

/** Waits until work has ended; fails when it takes longer. */
export async function whenEnded(compute: Compute, handle: WorkHandle, withinMs = 60_000): Promise<EndedStatus> {
  for (const deadline = Date.now() + withinMs; Date.now() < deadline; await sleep(20)) {
    const status = await compute.status(handle)
    if (status.state === 'ended') return status
  }
  throw new Error(`${handle.name} has not ended within ${withinMs} ms`)
}

/** Waits until the output holds a text, and returns it all. */
export async function whenLogged(compute: Compute, handle: WorkHandle, text: string): Promise<string> {
  for (const deadline = Date.now() + 60_000; Date.now() < deadline; await sleep(20)) {
    const output = (await compute.logs(handle, 0, 1e6)).toString()
    if (output.includes(text)) return output
  }
  throw new Error(`${handle.name} has not written ${text}`)
}

/** Waits until the memory that work uses has been measured, and returns it in bytes. */
async function whenMeasured(compute: Compute, handle: WorkHandle): Promise<number> {
  for (const deadline = Date.now() + 60_000; Date.now() < deadline; await sleep(50)) {
    const status = await compute.status(handle)
    if (status.state === 'running' && status.memoryBytes) return status.memoryBytes
  }
  throw new Error(`the memory of ${handle.name} was not measured within 60 s`)
}

/** What every driver of the compute port must do. @source compute.ts */
export function computeSuite(name: string, create: () => Promise<Compute>): void {
  describe(`${name} as a compute`, () => {
    let compute: Compute
    let folder: string
    let count = 0
    const shell = (script: string, more: Partial<WorkSpec> = {}): WorkSpec => ({
      name: `suite-${count++}`,
      command: ['/bin/sh', '-c', script],
      env: {},
      folder,
      ...more,
    })
    const run = async (spec: WorkSpec) => {
      const handle = await compute.start(spec)
      return { handle, status: await whenEnded(compute, handle) }
    }

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'compute-suite-'))
      compute = await create()
    })
    afterAll(async () => {
      for (const { handle } of await compute.list()) await compute.remove(handle)
      await rm(folder, { recursive: true, force: true })
    })

    test.each([0, 1, 3, 127, 200])('ended: exit code %i is told, with the times', async (code) => {
      const before = Date.now() - 100
      const { status } = await run(shell(`exit ${code}`))
      expect(status).toMatchObject({ exitCode: code, signal: null, reason: 'exited' })
      expect(Date.parse(status.startedAt)).toBeGreaterThan(before)
      expect(Date.parse(status.endedAt)).toBeGreaterThanOrEqual(Date.parse(status.startedAt))
    })

    test('ended: a signal that ended it is told', async () => {
      const { status } = await run(shell('kill -SEGV $$'))
      expect(status).toMatchObject({ exitCode: null, signal: 'SIGSEGV', reason: 'exited' })
    })

    test('ended: a program that is not there ends like in a shell, and the log says why', async () => {
      const { handle, status } = await run(shell('', { command: ['/no/such/program'] }))
      expect(status.exitCode).toBe(127)
      expect((await compute.logs(handle, 0, 1000)).toString()).toMatch(/not found|no such file/i)
    })

    test('arguments arrive as they are, whatever they hold', async () => {
      const odd = ['a b', '', '$HOME', '`id`', "it's", '"', '\\', '*', 'ä한\n!']
      const { handle } = await run(shell('', { command: ['/usr/bin/printf', '[%s]', ...odd] }))
      expect((await compute.logs(handle, 0, 1000)).toString()).toBe(odd.map((value) => `[${value}]`).join(''))
    })

    test('its environment is its own, in its folder, with PATH, HOME and TMPDIR made usable', async () => {
      process.env.SECRET_OF_THE_SERVER = 'leaked'
      const script = 'env; pwd; touch "$TMPDIR/x" && touch "$HOME/y" && echo usable; command -v sleep'
      const { handle } = await run(shell(script, { env: { GIVEN: 'a=b c' } }))
      delete process.env.SECRET_OF_THE_SERVER
      const output = (await compute.logs(handle, 0, 10_000)).toString()
      expect(output).toContain('GIVEN=a=b c\n')
      expect(output).toContain(`\n${folder}\n`)
      expect(output).toContain('usable\n')
      expect(output).toMatch(/\/sleep\n/)
      expect(output).not.toMatch(/SECRET|leaked|VITEST|NODE/)
    })

    test('logs give both streams in order, from any offset, as much as asked', async () => {
      const { handle } = await run(shell('echo one; echo two >&2; echo three'))
      expect((await compute.logs(handle, 0, 1000)).toString()).toBe('one\ntwo\nthree\n')
      expect((await compute.logs(handle, 4, 3)).toString()).toBe('two')
      expect((await compute.logs(handle, 14, 10)).length).toBe(0)
      expect((await compute.logs(handle, 1000, 10)).length).toBe(0)
      expect((await compute.logs(handle, -6, 1000)).toString()).toBe('three\n')
      expect((await compute.logs(handle, -1000, 3)).toString()).toBe('one')
    })

    test('starting twice under one name starts once, also at the same time and after the end', async () => {
      const spec = shell('echo started; sleep 0.3')
      const handles = await Promise.all([compute.start(spec), compute.start(spec), compute.start(spec)])
      expect(new Set(handles.map((handle) => JSON.stringify(handle))).size).toBe(1)
      await whenEnded(compute, handles[0]!)
      await compute.start(spec)
      expect((await compute.logs(handles[0]!, 0, 1000)).toString()).toBe('started\n')
    })

    test('stop asks first: work that ends in time ends its own way', async () => {
      const handle = await compute.start(shell('trap "echo saved; exit 5" TERM; echo up; while :; do sleep 0.05; done'))
      await whenLogged(compute, handle, 'up')
      expect(await compute.status(handle)).toMatchObject({ state: 'running' })
      const status = await compute.stop(handle, 10_000)
      expect(status).toMatchObject({ state: 'ended', exitCode: 5, signal: null, reason: 'stopped' })
      expect((await compute.logs(handle, 0, 1000)).toString()).toContain('saved')
      expect(await compute.stop(handle, 1000), 'stopping again changes nothing').toEqual(status)
    })

    test('stop kills what ignores it after the grace', async () => {
      const handle = await compute.start(shell('trap "" TERM; echo up; while :; do sleep 0.05; done'))
      await whenLogged(compute, handle, 'up')
      const before = Date.now()
      const status = await compute.stop(handle, 300)
      expect(status).toMatchObject({ state: 'ended', exitCode: null, signal: 'SIGKILL', reason: 'stopped' })
      expect(Date.now() - before).toBeGreaterThanOrEqual(300)
      expect(Date.now() - before).toBeLessThan(30_000)
    })

    test('kill ends it at once', async () => {
      const handle = await compute.start(shell('sleep 60'))
      expect(await compute.kill(handle)).toMatchObject({ state: 'ended', signal: 'SIGKILL', reason: 'killed' })
    })

    test('limits: time over means asked to end, with reason time', async () => {
      const { status } = await run(shell('sleep 60', { limits: { seconds: 1 } }))
      expect(status).toMatchObject({ reason: 'time', signal: 'SIGTERM' })
    })

    test('limits: too much memory, over all its processes, means killed with reason memory', async () => {
      const hog = 'const hold = Buffer.alloc(150e6, 1); setTimeout(() => console.log(hold.length), 60_000)'
      const script = `"${process.execPath}" -e '${hog}' & "${process.execPath}" -e '${hog}'`
      const { status } = await run(shell(script, { limits: { memoryBytes: 300e6 } }))
      expect(status).toMatchObject({ reason: 'memory', signal: 'SIGKILL' })
    })

    test('limits: work within its memory is left alone and its use is told', async () => {
      const gate = join(folder, 'gate')
      const handle = await compute.start(
        shell('while [ ! -e gate ]; do sleep 0.05; done', { limits: { memoryBytes: 100e6 } }),
      )
      const measured = await whenMeasured(compute, handle)
      expect(measured).toBeGreaterThan(100_000)
      await writeFile(gate, '')
      expect(await whenEnded(compute, handle)).toMatchObject({ reason: 'exited', exitCode: 0 })
    })

    test('list has what is there; remove ends it and frees its name', async () => {
      const spec = shell('echo again; sleep 60')
      const handle = await compute.start(spec)
      expect(await compute.list()).toContainEqual({ handle, status: expect.objectContaining({ state: 'running' }) })
      await compute.remove(handle)
      expect(await compute.status(handle)).toEqual({ state: 'absent' })
      expect((await compute.list()).map((work) => work.handle.name)).not.toContain(spec.name)
      expect((await compute.logs(handle, 0, 10)).length).toBe(0)
      await compute.start(spec)
      await whenLogged(compute, handle, 'again')
      await compute.remove(handle)
      await compute.remove(handle)
    })

    test('removed by several at once, while it is being stopped: all succeed, and nothing is left', async () => {
      for (let round = 0; round < 5; round++) {
        const handle = await compute.start(shell('trap "exit 0" TERM; while :; do sleep 0.02; done'))
        const stopAndRemove = () => compute.stop(handle, 5000).then(() => compute.remove(handle))
        await Promise.all([stopAndRemove(), stopAndRemove(), compute.remove(handle), compute.status(handle)])
        expect(await compute.status(handle)).toEqual({ state: 'absent' })
      }
    })

    test('absent is the answer for what never was', async () => {
      const handle = { driver: 'any', name: 'never-started' }
      expect(await compute.status(handle)).toEqual({ state: 'absent' })
      expect(await compute.stop(handle, 10)).toEqual({ state: 'absent' })
      expect(await compute.kill(handle)).toEqual({ state: 'absent' })
    })

    test.each(['', '../x', 'A', '-x', 'a/b', 'x'.repeat(64)])('the name %j is refused', async (name) => {
      await expect(compute.start(shell('true', { name }))).rejects.toThrow(/name/)
      expect(await compute.status({ driver: 'any', name })).toEqual({ state: 'absent' })
    })
  })
}
