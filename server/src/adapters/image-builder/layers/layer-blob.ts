import { createHash, type Hash } from 'node:crypto'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import type { BlobStore } from '../../../platform/blobs/blob-store.ts'
import type { Descriptor } from '../image-builder.ts'
import { type LayerEntry, tarStream } from './tar-stream.ts'

/** A stored layer: what the manifest says of it, and the digest of its uncompressed tar for the configuration. */
export interface Layer extends Descriptor {
  diffId: string
}

export interface LayerWriting {
  compress: boolean
  signal?: AbortSignal
  /** Told of every piece of the archive, in bytes before compression. */
  wrote?: (bytes: number) => void
}

/**
 * Streams entries into the store as one layer, in a single pass; both digests come out of it.
 *
 * Level 4 is the knee for the node binary (127 MB): 1.8 s and 49.9 MB at level 1, 2.0 s and 46.9 MB at 4, 3.4 s and
 * 45.7 MB at 6. Model layers stay plain: float weights shrink by 7 %, for 40 times the time of copying them.
 * @source OCI Image Specification 1.1 "layer", "Layer DiffID"
 */
export async function writeLayer(store: BlobStore, entries: LayerEntry[], writing: LayerWriting): Promise<Layer> {
  const hash = createHash('sha256')
  const archive = hashed(tarStream(entries), hash, writing)
  try {
    const info = writing.compress
      ? await putCompressed(store, archive, writing.signal)
      : await store.put(archive, { signal: writing.signal })
    const mediaType = `application/vnd.oci.image.layer.v1.tar${writing.compress ? '+gzip' : ''}`
    return { mediaType, digest: info.digest, size: info.size, diffId: `sha256:${hash.digest('hex')}` }
  } finally {
    // A store leaves a source it gave up on as it is; this closes the file that was being read.
    await archive.return()
  }
}

async function putCompressed(store: BlobStore, archive: AsyncIterable<Uint8Array>, signal?: AbortSignal) {
  const gzip = createGzip({ level: 4, chunkSize: 256 * 1024 })
  const filled = pipeline(Readable.from(archive), gzip)
  try {
    const [info] = await Promise.all([store.put(gzip, { signal }), filled])
    return info
  } finally {
    // A put that gave up early leaves the compressor waiting for a reader.
    gzip.destroy()
    await filled.catch(() => {})
  }
}

async function* hashed(
  archive: AsyncIterable<Uint8Array>,
  hash: Hash,
  writing: LayerWriting,
): AsyncGenerator<Uint8Array, void> {
  for await (const piece of archive) {
    writing.signal?.throwIfAborted()
    hash.update(piece)
    writing.wrote?.(piece.length)
    yield piece
  }
}
