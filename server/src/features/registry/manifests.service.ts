import type { Tx } from '../../platform/db/transaction.ts'
import { conflict } from '../../platform/errors.ts'
import { type BlobLink, linkBlobs, touchBlobs } from './blobs.store.ts'
import { type Hold, listHoldsOn } from './holds.store.ts'
import { insertManifest } from './manifests.store.ts'
import { ociError } from './oci/oci-errors.ts'
import type { Manifest } from './oci/oci-manifests.ts'
import type { RepositoryRow } from './repositories.store.ts'
import { setTag } from './tags.store.ts'

export interface ManifestRecord {
  manifest: Manifest
  /** SHA-256 of the bytes, which lie in the blob store. */
  contentDigest: string
  tags: string[]
}

/**
 * Makes a manifest part of the repository, taken by `repositoryForPush`: the one way in, for pushes, imports and built
 * images. Its bytes are in the blob store before the transaction ends. Throws the OCI error MANIFEST_BLOB_UNKNOWN when
 * the repository lacks its configuration or a layer. @source contract B9.7
 */
export async function recordManifest(tx: Tx, repository: RepositoryRow, record: ManifestRecord): Promise<void> {
  const { manifest, contentDigest, tags } = record
  const present = await touchBlobs(tx, repository.id, manifest.requiredBlobs)
  const missing = manifest.requiredBlobs.filter((digest) => !present.has(digest))
  if (missing.length > 0) throw ociError('MANIFEST_BLOB_UNKNOWN', { detail: { digests: missing } })
  await insertManifest(tx, repository, { ...manifest, contentDigest })
  for (const tag of tags) await setTag(tx, repository, tag, manifest.digest)
}

/** Links what the caller just put into the blob store or marked as used there, then records the manifest over it. */
export async function recordImage(
  tx: Tx,
  repository: RepositoryRow,
  image: ManifestRecord & { blobs: BlobLink[] },
): Promise<void> {
  await linkBlobs(tx, repository, image.blobs)
  await recordManifest(tx, repository, image)
}

/** Throws `conflict` with the holders when an image or endpoint still needs this. @source contract PR-63 */
export async function requireUnheld(tx: Tx, repository: RepositoryRow, digest: string): Promise<void> {
  throwIfHeld(await listHoldsOn(tx, repository, digest))
}

export function throwIfHeld(holds: Hold[]): void {
  if (holds.length === 0) return
  throw conflict(`This is still in use: ${holds[0]!.reason}`, {
    detail: {
      reason: 'in_use',
      holders: holds.map(({ holder, digest, reason }) => ({ holder, digest, reason })),
    },
  })
}
