import { json } from 'node:stream/consumers'
import type { ImageRunConfig, WorkImage } from '../../adapters/compute/compute.ts'
import type { BlobStore } from '../../platform/blobs/blob-store.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict } from '../../platform/errors.ts'
import { loadImage } from './images.service.ts'
import type { ImageState } from './images.states.ts'
import { findNewestImage } from './images.store.ts'

/** What other features may know of images. */

/** An image that an endpoint can serve. */
export interface ReadyImage {
  id: string
  modelId: string
  modelName: string
  modelVersion: number
  repository: string
  digest: string
}

/** Throws `not_found`, or `conflict` with `detail.reason` image_not_ready. */
export async function getReadyImage(tx: Tx, ctx: TenantCtx, imageId: string): Promise<ReadyImage> {
  const { id, modelId, modelName, modelVersion, repository, digest, state } = await loadImage(tx, ctx, imageId)
  if (state !== 'READY' || !repository || !digest)
    throw conflict(`The image is ${state}, not READY.`, { detail: { reason: 'image_not_ready', state } })
  return { id, modelId, modelName, modelVersion, repository, digest }
}

/** Where the newest image of a model's version stands; null when none was ever built. */
export async function findImageState(
  tx: Tx,
  tenantId: string,
  version: { modelId: string; version: number },
): Promise<{ state: ImageState; fault: string | null } | null> {
  const image = await findNewestImage(tx, tenantId, version)
  return image && { state: image.state, fault: image.error?.message ?? null }
}

/** The content of a published image, for the compute to start. */
export async function openImage(blobs: BlobStore, digest: string): Promise<WorkImage> {
  const manifest = (await json(await blobs.open(digest))) as {
    config: { digest: string }
    layers: { digest: string }[]
  }
  const config = (await json(await blobs.open(manifest.config.digest))) as { config?: ImageRunConfig }
  const layers = manifest.layers.map(({ digest }) => ({ digest }))
  return { digest, layers, config, open: (layer) => blobs.open(layer) }
}
