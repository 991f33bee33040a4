import type { BlobStore } from '../../platform/blobs/blob-store.ts'
import { type Manifest, manifestMaxBytes, parseManifest } from './oci/oci-manifests.ts'

/** The whole of a small blob. Throws `not_found`, or an error when it is longer than any manifest may be. */
export async function readSmallBlob(blobs: BlobStore, digest: string): Promise<Buffer> {
  const parts: Buffer[] = []
  let length = 0
  for await (const part of await blobs.open(digest)) {
    length += part.length
    if (length > manifestMaxBytes) throw new Error(`${digest} is too long to be read at once`)
    parts.push(part as Buffer)
  }
  return Buffer.concat(parts)
}

export async function readJsonBlob(blobs: BlobStore, digest: string): Promise<unknown> {
  return JSON.parse((await readSmallBlob(blobs, digest)).toString('utf8'))
}

/** A manifest from its stored bytes. */
export async function readManifest(
  blobs: BlobStore,
  stored: { contentDigest: string; mediaType: string },
): Promise<Manifest> {
  return parseManifest(await readSmallBlob(blobs, stored.contentDigest), stored.mediaType)
}
