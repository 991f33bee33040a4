import type { Descriptor } from '../../adapters/image-builder/image-builder.ts'
import type { Services, SystemCtx, TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { notFound } from '../../platform/errors.ts'
import { deleteHolds, insertHold } from './holds.store.ts'
import { readJsonBlob, readManifest } from './manifest-reader.ts'
import { recordImage } from './manifests.service.ts'
import { findManifest, findManifestInTenant, listReferences } from './manifests.store.ts'
import { findQuota, replaceQuota } from './quota.store.ts'
import { findRepository, guardRepository, replaceShares, repositoryForPush, sumUsage } from './repositories.store.ts'
import { namespaceOf, registryHost, wholeName } from './repository-names.ts'
import { type SweepRequest, sweepBlobs } from './sweep.service.ts'
import type { Swept } from './sweep.store.ts'

export { registryHost }

export interface PublishedImage {
  /** With the tenant in front: `acme/models/cats`. */
  repository: string
  tag: string
  digest: string
  /** What a client pulls: `host/acme/models/cats:v3@sha256:…`. */
  reference: string
}

export interface ImageToPublish {
  /** With or without the tenant in front. */
  repository: string
  tag: string
  manifest: Descriptor
  config: Descriptor
  layers: Descriptor[]
}

/**
 * Puts an image whose manifest, configuration and layers lie in the blob store into the registry, as if it had been
 * pushed; published again it only moves the tag. A tenant's context publishes under the tenant, the system's into the
 * reserved namespace `shared/`. Throws `not_found` when the manifest's bytes are not in the store.
 */
export async function publishImage(tx: Tx, ctx: TenantCtx | SystemCtx, image: ImageToPublish): Promise<PublishedImage> {
  const tenantId = ctx.kind === 'tenant' ? ctx.tenant.id : null
  const repository = await repositoryForPush(tx, tenantId, wholeName(ctx, image.repository))
  const { digest, mediaType } = image.manifest
  const manifest = await readManifest(ctx.blobs, { contentDigest: digest, mediaType })
  const blobs = [image.config, ...image.layers]
  await requireContents(ctx, [image.manifest, ...blobs])
  await recordImage(tx, repository, {
    manifest,
    contentDigest: digest,
    tags: [image.tag],
    blobs: blobs.map(({ digest: blob, size }) => ({ digest: blob, contentDigest: blob, size })),
  })
  const reference = `${registryHost(ctx)}/${repository.name}:${image.tag}@${digest}`
  return { repository: repository.name, tag: image.tag, digest, reference }
}

/** From then on no sweep takes what is there. */
async function requireContents(ctx: TenantCtx | SystemCtx, contents: Descriptor[]): Promise<void> {
  for (const { digest } of contents) {
    if (!(await ctx.blobs.use(digest))) throw notFound('The store lacks a part of the image.', { detail: { digest } })
  }
}

export interface ImageContent {
  digest: string
  mediaType: string
  /** The parsed OCI configuration. */
  config: unknown
  /** Lowest first. */
  layers: Descriptor[]
}

/**
 * An image of the tenant by the digest of its manifest; configuration and layers come under the digests that the blob
 * store knows. Throws `not_found`. @source OCI Image Specification 1.1
 */
export async function readImage(tx: Tx, ctx: TenantCtx, digest: string): Promise<ImageContent> {
  const row = await findManifestInTenant(tx, ctx.tenant.id, digest)
  if (!row) throw notFound('There is no image of this digest.')
  const references = await listReferences(tx, row.repositoryId, digest)
  const stored = references.map(({ role, mediaType, size, contentDigest, digest: named }) => ({
    role,
    descriptor: { mediaType, digest: contentDigest ?? named, size },
  }))
  const config = stored.find(({ role }) => role === 'config')
  if (!config) throw notFound('This digest is a list of images, not an image.')
  const layers = stored.filter(({ role }) => role === 'layer').map(({ descriptor }) => descriptor)
  return { digest, mediaType: row.mediaType, config: await readJsonBlob(ctx.blobs, config.descriptor.digest), layers }
}

export interface HoldRequest {
  /** With or without the tenant in front. */
  repository: string
  digest: string
  /** `image:<id>`, `endpoint:<name>`. */
  holder: string
  /** For people: `endpoint cats serves it`. */
  reason: string
}

/** From now on the image can't be deleted, until the holder lets go. Throws `not_found` when it is gone already. */
export async function holdImage(tx: Tx, ctx: TenantCtx, hold: HoldRequest): Promise<void> {
  const repositoryName = wholeName(ctx, hold.repository)
  const repository = await guardRepository(tx, repositoryName)
  if (!repository || !(await findManifest(tx, repository.id, hold.digest)))
    throw notFound('There is no image of this digest in the repository.')
  const { digest, holder, reason } = hold
  await insertHold(tx, ctx.tenant.id, { repositoryName, digest, holder, reason })
}

/** The holder lets go of everything it held. */
export async function releaseImage(tx: Tx, ctx: TenantCtx, holder: string): Promise<void> {
  await deleteHolds(tx, ctx.tenant.id, holder)
}

/** Sets which tenants may pull a repository of the reserved namespace; `repository` as in `publishImage`. */
export async function shareRepository(
  tx: Tx,
  ctx: SystemCtx,
  share: { repository: string; tenantIds: string[] },
): Promise<void> {
  const repository = await findRepository(tx, wholeName(ctx, share.repository))
  if (!repository) throw notFound(`There is no such repository in ${namespaceOf(ctx)}/.`)
  await replaceShares(tx, repository.id, share.tenantIds)
}

/** Sets the most bytes the tenant may keep in the registry; null for no limit. */
export async function setRegistryQuota(
  tx: Tx,
  _ctx: SystemCtx,
  quota: { tenantId: string; quotaBytes: number | null },
): Promise<void> {
  await replaceQuota(tx, quota.tenantId, quota.quotaBytes)
}

export interface RegistryUsage {
  /** Each blob and manifest once, and uploads that are under way. */
  usedBytes: number
  /** Null without a limit. */
  quotaBytes: number | null
}

export async function registryUsage(tx: Tx, tenantId: string): Promise<RegistryUsage> {
  return { usedBytes: await sumUsage(tx, tenantId), quotaBytes: await findQuota(tx, tenantId) }
}

/** Unlinks blobs that no manifest names, or only counts them; safe while pushes go on. */
export function sweepRegistry(services: Services, request: SweepRequest): Promise<Swept> {
  return sweepBlobs(services, request)
}
