import { execFile } from 'node:child_process'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, test } from 'vitest'
import { solidLogits, solidTensor } from '../test/images.ts'
import { probeClasses, probeGraph, writeModelFolder } from '../test/model-folders.ts'
import { checkExport, type ExportCheck } from './check-export.ts'

let folder: string
const color = [200, 40, 90] as const
const check = (change: Partial<ExportCheck> = {}): ExportCheck => ({
  input: { shape: [1, 3, 6, 8], data: solidTensor([...color]).flat(2) },
  output: { shape: [1, 5], data: solidLogits([...color]) },
  tolerance: 1e-5,
  ...change,
})

beforeAll(async () => {
  folder = await writeModelFolder(probeGraph(), probeClasses)
})

describe('checkExport', () => {
  test('passes and tells the largest difference', async () => {
    const { max_difference } = await checkExport(folder, check())
    expect(max_difference).toBeGreaterThan(0)
    expect(max_difference).toBeLessThan(1e-5)
  })

  test('refuses one value that differs by more than the tolerance', async () => {
    const data = solidLogits([...color])
    data[4]! += 0.01
    await expect(checkExport(folder, check({ output: { shape: [1, 5], data } }))).rejects.toThrow(
      /differs by 0\.0(1|0999)/,
    )
  })

  test('refuses another shape', async () => {
    const output = { shape: [5], data: solidLogits([...color]) }
    await expect(checkExport(folder, check({ output }))).rejects.toThrow('shape [1,5], the framework [5]')
  })

  test('refuses outputs that are not finite', async () => {
    const input = check().input
    input.data[0] = Number.NaN
    await expect(checkExport(folder, check({ input }))).rejects.toThrow('not finite')
  })
})

describe('node check-export.ts', () => {
  const run = async (document: unknown) => {
    const file = join(await mkdtemp(join(tmpdir(), 'check-')), 'export_check.json')
    await writeFile(file, JSON.stringify(document))
    const script = fileURLToPath(new URL('check-export.ts', import.meta.url))
    return new Promise<{ code: unknown; stdout: string; stderr: string }>((resolve) => {
      execFile(process.execPath, [script, folder, file], (error, stdout, stderr) =>
        resolve({ code: error?.code ?? 0, stdout, stderr }),
      )
    })
  }

  test('exits 0 and prints the difference', async () => {
    const { code, stdout } = await run(check())
    expect(code).toBe(0)
    expect(JSON.parse(stdout).max_difference).toBeLessThan(1e-5)
  })

  test('exits 1 with a message', async () => {
    const { code, stderr } = await run(check({ tolerance: 0 }))
    expect(code).toBe(1)
    expect(stderr).toContain('more than the tolerance 0')
  })
})
