import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openPromise } from 'yauzl'
import { drawSample, sampleClasses } from './sample-drawing.ts'
import { makeSampleImages } from './sample-images.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'samples-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const small = { classes: 3, perClass: 6, testPerClass: 2, size: 32 }

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const piece of createReadStream(path)) hash.update(piece)
  return hash.digest('hex')
}

test('a ZIP holds train/<class> and test/<class> with the promised number of readable images', async () => {
  const path = join(folder, 'set.zip')
  const made = await makeSampleImages(path, small)
  expect(made).toMatchObject({
    path,
    trainImages: 18,
    testImages: 6,
    classes: ['circle-stripes', 'triangle-dots', 'square-rings'],
  })
  const counts: Record<string, number> = {}
  const zip = await openPromise(path, { strictFileNames: true })
  for await (const entry of zip.eachEntry()) {
    const [, set] = /^((?:train|test)\/[a-z-]+)\/\d{4}\.(?:png|jpg)$/.exec(entry.fileName) as RegExpExecArray
    counts[set as string] = (counts[set as string] ?? 0) + 1
  }
  expect(counts).toEqual(
    Object.fromEntries(
      made.classes.flatMap((name) => [
        [`train/${name}`, 6],
        [`test/${name}`, 2],
      ]),
    ),
  )
})

test('a folder holds the same files, PNG and JPEG, of the asked size', async () => {
  const path = join(folder, 'set')
  await makeSampleImages(path, small)
  const files = (await readdir(path, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
  expect(files).toHaveLength(24)
  const metadata = await Promise.all(files.map((file) => sharp(join(file.parentPath, file.name)).metadata()))
  expect(new Set(metadata.map(({ format }) => format))).toEqual(new Set(['png', 'jpeg']))
  for (const { width, height, channels } of metadata) expect([width, height, channels]).toEqual([32, 32, 3])
})

test('one seed gives the same archive, another seed another', async () => {
  const digests = []
  for (const seed of [7, 7, 8]) {
    const path = join(folder, `seed-${digests.length}.zip`)
    await makeSampleImages(path, { ...small, seed })
    digests.push(await digestOf(path))
  }
  expect(digests[0]).toBe(digests[1])
  expect(digests[0]).not.toBe(digests[2])
})

test('no image comes twice, within or between training and test', () => {
  const drawn = sampleClasses.flatMap((sampleClass, classIndex) =>
    Array.from({ length: 40 }, (_, index) =>
      Buffer.from(drawSample(sampleClass, 16, classIndex * 10_007 + index)).toString('hex'),
    ),
  )
  expect(new Set(drawn).size).toBe(sampleClasses.length * 40)
})

/** Mean and spread of each channel: all that colour and brightness can tell. */
function colourOf(pixels: Uint8Array): number[] {
  return [0, 1, 2].flatMap((channel) => {
    const values = pixels.filter((_, index) => index % 3 === channel)
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length
    const spread = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length)
    return [mean, spread]
  })
}

test('colour and brightness alone do not tell the classes apart', () => {
  const draw = (classIndex: number, index: number) =>
    colourOf(drawSample(sampleClasses[classIndex] as (typeof sampleClasses)[0], 32, classIndex * 10_007 + index))
  const known = [0, 1, 2, 3].flatMap((label) =>
    Array.from({ length: 60 }, (_, index) => ({ label, features: draw(label, index) })),
  )
  const asked = [0, 1, 2, 3].flatMap((label) =>
    Array.from({ length: 40 }, (_, index) => ({ label, features: draw(label, 60 + index) })),
  )
  const right = asked.filter(({ label, features }) => {
    const far = known.map((other) => Math.hypot(...other.features.map((value, at) => value - (features[at] as number))))
    return known[far.indexOf(Math.min(...far))]?.label === label
  })
  expect(right.length / asked.length).toBeLessThan(0.5)
})

test('the number of classes is bounded', async () => {
  for (const classes of [1, 17]) {
    await expect(makeSampleImages(join(folder, 'none.zip'), { classes })).rejects.toThrow('classes: 2 to 16')
  }
})
