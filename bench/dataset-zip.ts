/**
 * A ZIP of 20,000 small images, from the first byte sent to registered, decoded and validated files, against
 * `unzip` of the same archive followed by decoding each file with sharp on all cores, on the same disk.
 * Target: at least 0.5 times the speed of the two together.
 * Usage: node bench/dataset-zip.ts [IMAGES] (some minutes)
 */
import { execFile } from 'node:child_process'
import { glob, open, readFile, rm } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import sharp from 'sharp'
import { storedZip } from '../server/src/features/datasets/stored-zip.ts'
import { seconds, sendFile, startPlatform } from './platform.fixture.ts'

const images = Number(process.argv[2] ?? 20_000)

/** Different in every byte that counts, and as small as thumbnails are. */
async function makeArchive(path: string): Promise<void> {
  const noise = { type: 'gaussian', mean: 128, sigma: 30 } as const
  const contents: Buffer[] = []
  const make = async (index: number) => {
    const background = { r: index % 256, g: (index >> 8) % 256, b: 90 }
    const raw = { create: { width: 96, height: 96, channels: 3, background, noise } } as const
    contents[index] = await sharp(raw).jpeg({ quality: 70 }).toBuffer()
  }
  for (let at = 0; at < images; at += 64)
    await Promise.all(Array.from({ length: Math.min(64, images - at) }, (_, i) => make(at + i)))
  async function* entries() {
    for (let i = 0; i < images; i++)
      yield { path: `${i % 5 === 0 ? 'test' : 'train'}/class-${i % 10}/${i}.jpg`, size: contents[i]!.length, index: i }
  }
  const file = await open(path, 'w')
  for await (const part of storedZip(entries(), async ({ index }) => Readable.from([contents[index]!])))
    await file.write(part)
  await file.close()
}

async function unzipAndDecode(archive: string, folder: string): Promise<number> {
  const began = performance.now()
  await promisify(execFile)('unzip', ['-q', archive, '-d', folder])
  const files = glob('**/*.jpg', { cwd: folder })
  sharp.concurrency(1)
  const lane = async () => {
    for await (const name of files)
      await sharp(await readFile(join(folder, name)))
        .raw()
        .toBuffer()
  }
  await Promise.all(Array.from({ length: 2 * availableParallelism() }, lane))
  return performance.now() - began
}

const platform = await startPlatform()
try {
  const archive = join(platform.dataDir, 'images.zip')
  await makeArchive(archive)
  const folder = join(platform.dataDir, 'unzipped')
  const peerMs = await unzipAndDecode(archive, folder)
  await rm(folder, { recursive: true })
  const file = await open(archive, 'r')
  const { size } = await file.stat()
  const { id } = await platform.call('POST', '/api/v1/datasets/drafts', { name: 'bench' })
  const read = async (start: number, length: number) =>
    (await file.read(Buffer.allocUnsafe(length), 0, length, start)).buffer
  const before = await platform.residentMemory()
  const began = performance.now()
  const session = await sendFile(platform, id, { filename: 'images.zip', size, read }, 4)
  const ourMs = performance.now() - began
  await file.close()
  const dataset = await platform.call('GET', `/api/v1/datasets/${id}`)
  if (session.result.created !== images || dataset.status !== 'READY') throw new Error(JSON.stringify(session))
  const grown = ((await platform.peakMemory()) - before) / 1e6
  console.log(`${images} images, ${(size / 1e6).toFixed(0)} MB`)
  console.log(`unzip and decode  ${seconds(peerMs)}`)
  console.log(`upload to READY   ${seconds(ourMs)}   memory grew by ${grown.toFixed(0)} MB`)
  console.log(`ratio ${(peerMs / ourMs).toFixed(2)} (target 0.50)`)
  process.exitCode = peerMs / ourMs >= 0.5 ? 0 : 1
} finally {
  await platform.stop()
}
