import { createHash, randomFillSync } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, rename, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'

export interface Descriptor {
  mediaType: string
  digest: string
  size: number
}

export interface ImageLayout {
  /** Absolute; `skopeo` takes it as `oci:<folder>:v1`. */
  folder: string
  manifest: Descriptor
  config: Descriptor
  layers: Descriptor[]
}

const blobFolder = (folder: string) => join(folder, 'blobs', 'sha256')
export const blobPath = (folder: string, digest: string) => join(blobFolder(folder), digest.replace('sha256:', ''))

/**
 * Writes an image with one file of random bytes in each layer, as an OCI image layout.
 * @param layerBytes length of each layer's file
 */
export async function writeImageLayout(folder: string, layerBytes: number[]): Promise<ImageLayout> {
  await mkdir(blobFolder(folder), { recursive: true })
  const layers: Descriptor[] = []
  const diffIds: string[] = []
  for (const [index, size] of layerBytes.entries()) {
    const { descriptor, diffId } = await writeLayer(folder, `file-${index}`, size)
    layers.push(descriptor)
    diffIds.push(diffId)
  }
  const image = { architecture: 'amd64', os: 'linux', config: {}, rootfs: { type: 'layers', diff_ids: diffIds } }
  const config = await writeBlob(folder, 'application/vnd.oci.image.config.v1+json', JSON.stringify(image))
  const mediaType = 'application/vnd.oci.image.manifest.v1+json'
  const manifest = await writeBlob(folder, mediaType, JSON.stringify({ schemaVersion: 2, mediaType, config, layers }))
  const annotations = { 'org.opencontainers.image.ref.name': 'v1' }
  await writeFile(join(folder, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  await writeFile(
    join(folder, 'index.json'),
    JSON.stringify({ schemaVersion: 2, manifests: [{ ...manifest, annotations }] }),
  )
  return { folder, manifest, config, layers }
}

async function writeBlob(folder: string, mediaType: string, text: string): Promise<Descriptor> {
  const digest = `sha256:${createHash('sha256').update(text).digest('hex')}`
  await writeFile(blobPath(folder, digest), text)
  return { mediaType, digest, size: Buffer.byteLength(text) }
}

/** A gzip around a tar of one file; stored, not compressed: random bytes do not shrink. */
async function writeLayer(folder: string, name: string, size: number) {
  const plain = createHash('sha256')
  const packed = createHash('sha256')
  const draft = join(folder, `${name}.draft`)
  const hashing = (hash: ReturnType<typeof createHash>) =>
    async function* (parts: AsyncIterable<Buffer>) {
      for await (const part of parts) {
        hash.update(part)
        yield part
      }
    }
  const content = Readable.from(tarOf(name, size), { objectMode: false })
  await pipeline(content, hashing(plain), createGzip({ level: 0 }), hashing(packed), createWriteStream(draft))
  const digest = `sha256:${packed.digest('hex')}`
  const descriptor = {
    mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip',
    digest,
    size: (await stat(draft)).size,
  }
  await rename(draft, blobPath(folder, digest))
  return { descriptor, diffId: `sha256:${plain.digest('hex')}` }
}

/** @source POSIX.1-2024 pax, "ustar Interchange Format" */
function* tarOf(name: string, size: number): Generator<Buffer> {
  const header = Buffer.alloc(512)
  header.write(name, 0)
  header.write('0000644\0', 100)
  header.write('0000000\0', 108)
  header.write('0000000\0', 116)
  header.write(`${size.toString(8).padStart(11, '0')}\0`, 124)
  header.write('00000000000\0', 136)
  header.write('        ', 148)
  header.write('0', 156)
  header.write('ustar\x0000', 257)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  yield header
  for (let left = size; left > 0; left -= 1024 * 1024) yield randomFillSync(Buffer.alloc(Math.min(left, 1024 * 1024)))
  yield Buffer.alloc(((512 - (size % 512)) % 512) + 1024)
}
