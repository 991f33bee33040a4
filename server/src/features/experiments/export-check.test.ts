import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { solidLogits, solidTensor } from '../../../../model-server/test/images.ts'
import { probeClasses, probeGraph, writeModelFolder } from '../../../../model-server/test/model-folders.ts'
import { checkExport } from './export-check.ts'

const colour = [200, 40, 90] as const
let folder = ''
let model = ''
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'export-check-'))
  model = await writeModelFolder(probeGraph(), probeClasses)
})
afterAll(() => Promise.all([folder, model].map((path) => rm(path, { recursive: true, force: true }))))

async function checkAgainst(data: number[]): Promise<number> {
  const file = join(folder, 'export_check.json')
  const input = { shape: [1, 3, 6, 8], data: solidTensor([...colour]).flat(2) }
  await writeFile(file, JSON.stringify({ input, output: { shape: [1, 5], data }, tolerance: 1e-5 }))
  return checkExport(model, file, new AbortController().signal)
}

describe('checkExport', () => {
  test('gives the largest difference of a model that answers as it should', async () => {
    expect(await checkAgainst(solidLogits([...colour]))).toBeLessThan(1e-5)
  })

  test('fails with the difference and the tolerance of one that does not', async () => {
    const data = solidLogits([...colour])
    data[2]! += 0.25
    await expect(checkAgainst(data)).rejects.toMatchObject({
      message: expect.stringMatching(/differs by 0\.2\d*, more than the tolerance 0\.00001/),
      detail: { step: 'verify', reason: 'export_check', remedy: expect.any(String) },
    })
  })

  test('says so of a file that is no model', async () => {
    const broken = await writeModelFolder(probeGraph(), probeClasses)
    await writeFile(join(broken, 'model.onnx'), 'not a model')
    const check = checkExport(broken, join(folder, 'export_check.json'), new AbortController().signal)
    await expect(check).rejects.toMatchObject({ message: expect.stringMatching(/model\.onnx.*failed/) })
    await rm(broken, { recursive: true })
  })

  test('runs without the environment of the server, which holds its secrets', async () => {
    // Whoever inherited this would not even start.
    process.env.NODE_OPTIONS = '--import=/nowhere/at/all.mjs'
    try {
      expect(await checkAgainst(solidLogits([...colour]))).toBeLessThan(1e-5)
    } finally {
      delete process.env.NODE_OPTIONS
    }
  })

  test('an abort is thrown as it is', async () => {
    const reason = new Error('told to end')
    await expect(checkExport(model, 'none', AbortSignal.abort(reason))).rejects.toBe(reason)
  })
})
