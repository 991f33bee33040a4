import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findTrainerPython } from './trainer-python.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'platform-mlops-job-test-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

function runJob(args: string[], env: Record<string, string> = {}): Promise<{ code: number | null; output: string }> {
  const script = join(import.meta.dirname, 'main-job.ts')
  // Nothing answers at port 9 (discard), so the job starts a platform of its own.
  const child = spawn(process.execPath, [script, ...args], {
    env: { ...process.env, PLATFORM_MLOPS_URL: 'http://127.0.0.1:9', ...env },
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece) => (output += piece))
  return new Promise((resolve) => child.on('exit', (code) => resolve({ code, output })))
}

describe.skipIf(!findTrainerPython())('npm run main-job', () => {
  test('goes from generated images to a served model that is right about images it never saw', async () => {
    const json = join(folder, 'result.json')
    const { code, output } = await runJob(['--json', json, '--epochs', '8'])
    expect(code, output).toBe(0)
    const result = JSON.parse(await readFile(json, 'utf8'))
    // Four classes: guessing gives 0.25.
    expect(result.accuracy).toBeGreaterThan(0.6)
    expect(result.latency_ms.p50).toBeGreaterThan(0)
    expect(result.experiment.metric_points).toBeGreaterThan(0)
    expect(result.experiment.log_lines).toBeGreaterThan(0)
    expect(Object.keys(result.seconds)).toEqual(
      expect.arrayContaining(['upload, resumed', 'train', 'build image', 'pull image by digest', 'delete endpoint']),
    )
    expect(output).toContain('held-out top-1')
  }, 1_200_000)
})

describe('npm run main-job that can not succeed', () => {
  test('exits with 1 and says what is wrong with its input', async () => {
    const { code, output } = await runJob([join(folder, 'no-such.zip')])
    expect(code).toBe(1)
    expect(output).toContain('there is no such file or folder')
  })
})
