import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findTrainerEnvironment, recallTrainerEnvironment } from './trainer-environment.ts'
import { withInstallationLock } from './trainer-installation.ts'
import { probePython, runCommand } from './trainer-probe.ts'

const report = () => {}
const slowMs = 180_000 // a first import of torch from a cold disk takes tens of seconds
let folder = ''
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainer-environment-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const imports = ['python3', '/usr/bin/python3'].find(
  (python) => spawnSync(python, ['-c', 'import torch, torchvision, numpy, PIL']).status === 0,
)
const anyPython = ['python3', 'python'].find((python) => spawnSync(python, ['-c', 'pass']).status === 0)

describe('findTrainerEnvironment with TRAINER_PYTHON', () => {
  test('503 names a Python that does not exist, and tries no other', async () => {
    const wanted = findTrainerEnvironment({ trainerPython: '/nowhere/python', dataFolder: folder, report })
    await expect(wanted).rejects.toMatchObject({
      code: 'service_unavailable',
      message: expect.stringMatching(/TRAINER_PYTHON is \/nowhere\/python.*ENOENT.*Name a Python 3\.9/),
    })
  })

  test('503 says what a program that is no Python did', async () => {
    const wanted = findTrainerEnvironment({ trainerPython: '/bin/true', dataFolder: folder, report })
    await expect(wanted).rejects.toThrow('it ended with code 0 and said nothing')
  })

  test.skipIf(!anyPython)('503 names the package that a real Python lacks', async () => {
    const bare = join(folder, 'bare')
    expect(spawnSync(anyPython!, ['-m', 'venv', '--without-pip', bare]).status).toBe(0)
    const wanted = findTrainerEnvironment({ trainerPython: join(bare, 'bin/python'), dataFolder: folder, report })
    await expect(wanted).rejects.toThrow(/No module named '(numpy|PIL|torch)'|3\.9 or newer is needed/)
  })

  test.skipIf(!imports)(
    'a Python that imports torch is taken as configured',
    async () => {
      const found = await findTrainerEnvironment({ trainerPython: imports, dataFolder: folder, report })
      expect(found).toMatchObject({ source: 'configured', torchVersion: expect.stringMatching(/^\d+\.\d+/) })
    },
    slowMs,
  )
})

describe.skipIf(!imports)('findTrainerEnvironment without configuration', () => {
  test(
    'finds a Python that imports torch, remembers it, and replaces an answer that no longer holds',
    async () => {
      const cache = join(folder, 'trainer-environment.json')
      const found = await findTrainerEnvironment({ dataFolder: folder, report })
      expect(found.source).toBe('found')
      const memory = JSON.parse(await readFile(cache, 'utf8'))
      expect(Object.keys(memory.changedAt)).toContain(
        dirname(Object.keys(memory.changedAt).find((p) => p.endsWith('/torch'))!),
      )

      const marked = { ...found, source: 'apt' }
      await writeFile(cache, JSON.stringify({ ...memory, environment: marked }))
      expect(await findTrainerEnvironment({ dataFolder: folder, report })).toEqual(marked)
      expect(await recallTrainerEnvironment({ dataFolder: folder, trainerPython: imports })).toBeNull()

      const [place] = Object.keys(memory.changedAt)
      const older = { ...memory, environment: marked, changedAt: { ...memory.changedAt, [place!]: 1 } }
      for (const broken of [JSON.stringify(older), JSON.stringify(marked), 'not json']) {
        await writeFile(cache, broken)
        expect(await findTrainerEnvironment({ dataFolder: folder, report })).toEqual(found)
      }
    },
    slowMs,
  )

  test('an abort ends the search', async () => {
    const signal = AbortSignal.abort()
    await expect(findTrainerEnvironment({ dataFolder: join(folder, 'other'), report, signal })).rejects.toThrow(
      /abort/i,
    )
  })
})

describe('probePython', () => {
  test('a name that is not in PATH gives a reason, not an exception', async () => {
    expect(await probePython('python-that-nobody-has')).toEqual({ reason: expect.stringContaining('ENOENT') })
  })
})

describe('runCommand', () => {
  test('reports the lines of both outputs and the exit code', async () => {
    const lines: string[] = []
    const { code } = await runCommand('sh', ['-c', 'echo out; echo err >&2; exit 3'], { report: (l) => lines.push(l) })
    expect({ code, lines: lines.toSorted() }).toEqual({ code: 3, lines: ['err', 'out'] })
  })

  test('an abort kills the command and is thrown', async () => {
    const abort = new AbortController()
    const started = performance.now()
    const running = runCommand('sleep', ['30'], { signal: abort.signal })
    abort.abort()
    await expect(running).rejects.toThrow(/abort/i)
    expect(performance.now() - started).toBeLessThan(25_000)
  })
})

describe('withInstallationLock', () => {
  test('lets one installation in at a time, also after one that failed', async () => {
    let inside = 0
    let most = 0
    const work = async () => {
      most = Math.max(most, ++inside)
      await sleep(20)
      inside--
      throw new Error('no network')
    }
    const all = await Promise.allSettled([1, 2, 3].map(() => withInstallationLock(work, { report })))
    expect(all.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    expect(most).toBe(1)
  })

  test('is free again when its holder was killed', async () => {
    const script = `
      import { withInstallationLock } from ${JSON.stringify(join(import.meta.dirname, 'trainer-installation.ts'))}
      await withInstallationLock(async () => { console.log('held'); await new Promise(() => setInterval(() => {}, 1e6)) }, {})`
    const holder = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await once(holder.stdout, 'data')
    const lines: string[] = []
    const waiting = withInstallationLock(async () => 'mine', { report: (line) => lines.push(line) })
    while (lines.length === 0) await sleep(10)
    expect(lines).toEqual(['Another process is installing the training environment: waiting for it.'])
    holder.kill('SIGKILL')
    expect(await waiting).toBe('mine')
  })
})
