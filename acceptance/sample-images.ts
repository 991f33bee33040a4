import { createWriteStream } from 'node:fs'
import { mkdir, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import sharp from 'sharp'
import { ZipFile } from 'yazl'
import { drawSample, sampleClasses } from './sample-drawing.ts'

export interface SampleImagesOptions {
  /** Number of classes, 2 to 16; the more, the harder. */
  classes?: number
  /** Training images of each class. */
  perClass?: number
  /** Held-out images of each class. */
  testPerClass?: number
  /** Side of the square images in pixels. */
  size?: number
  seed?: number
}

export interface SampleImages {
  path: string
  classes: string[]
  trainImages: number
  testImages: number
  /** Length of all image files in bytes. */
  sizeBytes: number
}

interface SampleFile {
  path: string
  bytes: Buffer
}

const entryDate = new Date(2026, 0, 1)

/**
 * Makes a small image classification data set, `train/<class>/…` and `test/<class>/…`, as a ZIP when the target ends in
 * `.zip`, else as a folder. Classes differ in shape and texture (`sampleClasses`); colour, place, size, turn, light and noise vary and tell
 * nothing. The same options give the same pixels. Every third image is a PNG, the others are JPEGs.
 */
export async function makeSampleImages(target: string, options: SampleImagesOptions = {}): Promise<SampleImages> {
  const { classes = 4, perClass = 60, testPerClass = 15, size = 64, seed = 1 } = options
  if (classes < 2 || classes > sampleClasses.length) throw new RangeError(`classes: 2 to ${sampleClasses.length}`)
  const chosen = sampleClasses.slice(0, classes)
  const wanted = chosen.flatMap((sampleClass, classIndex) =>
    Array.from({ length: perClass + testPerClass }, (_, index) => ({ sampleClass, classIndex, index })),
  )
  // All at once: sharp's own threads do the work, and a whole set is a few MB.
  const files = await Promise.all(
    wanted.map(async ({ sampleClass, classIndex, index }): Promise<SampleFile> => {
      const asPng = index % 3 === 0
      const split = index < perClass ? 'train' : 'test'
      const name = `${String(index).padStart(4, '0')}.${asPng ? 'png' : 'jpg'}`
      const pixels = drawSample(sampleClass, size, seed * 1_000_003 + classIndex * 10_007 + index)
      return { path: `${split}/${sampleClass.name}/${name}`, bytes: await encode(pixels, size, asPng) }
    }),
  )
  await (target.endsWith('.zip') ? writeZip(target, files) : writeFolder(target, files))
  return {
    path: target,
    classes: chosen.map(({ name }) => name),
    trainImages: classes * perClass,
    testImages: classes * testPerClass,
    sizeBytes: files.reduce((sum, { bytes }) => sum + bytes.length, 0),
  }
}

function encode(pixels: Uint8Array, size: number, asPng: boolean): Promise<Buffer> {
  const image = sharp(pixels, { raw: { width: size, height: size, channels: 3 } })
  return (asPng ? image.png({ compressionLevel: 3 }) : image.jpeg({ quality: 88 })).toBuffer()
}

async function writeZip(target: string, files: SampleFile[]): Promise<void> {
  const zip = new ZipFile()
  for (const { path, bytes } of files) zip.addBuffer(bytes, path, { mtime: entryDate, mode: 0o100644, compress: false })
  zip.end()
  await mkdir(dirname(target), { recursive: true })
  await pipeline(zip.outputStream, createWriteStream(target))
}

async function writeFolder(target: string, files: SampleFile[]): Promise<void> {
  for (const folder of new Set(files.map(({ path }) => dirname(path)))) {
    await mkdir(join(target, folder), { recursive: true })
  }
  await Promise.all(files.map(({ path, bytes }) => writeFile(join(target, path), bytes)))
}

if (import.meta.main) {
  const target = process.argv[2] ?? 'sample-images.zip'
  const made = await makeSampleImages(target)
  const { size } = await stat(target)
  console.log(`${target}: ${made.trainImages} training and ${made.testImages} test images, ${size} bytes`)
}
