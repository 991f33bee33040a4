import { createHash } from 'node:crypto'
import { PlatformError } from '../../../platform/errors.ts'
import { Answer } from '../../../platform/http/answer.ts'
import { bodyStream } from '../../../platform/http/bodies.ts'
import { transaction } from '../../../platform/transaction.ts'
import { type BlobLink, linkBlobs } from '../blobs.store.ts'
import { quotaLeft } from '../quota.ts'
import { ensureRepository } from '../repositories.store.ts'
import { advanceUpload, endUpload, type OpenUpload } from '../uploads.store.ts'
import type { OciCall } from './oci-call.ts'
import { digestAlgorithm, digestOfFileBy } from './oci-digest.ts'
import { type OciError, ociError } from './oci-errors.ts'
import { uploadRange } from './oci-ranges.ts'

/** Takes the body as one whole blob, checked while it is written. Throws DIGEST_INVALID, DENIED over the quota. */
export async function receiveWhole(call: OciCall, digest: string, upload?: OpenUpload): Promise<BlobLink> {
  const { ctx, request } = call
  if (digestAlgorithm(digest) !== 'sha256') return receiveOther(call, digest)
  const maxBytes = upload ? roomOf(call, upload) : await roomFor(call)
  const { size } = await naming(digest, () =>
    ctx.blobs.put(bodyStream(request), { expected: digest, maxBytes, owned: true }),
  )
  return { digest, contentDigest: digest, size }
}

/** The store goes by SHA-256 alone; other digests are checked on the side. */
async function receiveOther(call: OciCall, digest: string): Promise<BlobLink> {
  const { ctx, request } = call
  const hash = createHash(digestAlgorithm(digest)!)
  const maxBytes = await roomFor(call)
  const info = await naming(digest, () => ctx.blobs.put(hashed(bodyStream(request), hash), { maxBytes, owned: true }))
  requireSame(digest, `${digestAlgorithm(digest)}:${hash.digest('hex')}`)
  return { digest, contentDigest: info.digest, size: info.size }
}

async function* hashed(content: AsyncIterable<Uint8Array>, hash: { update(part: Uint8Array): unknown }) {
  for await (const part of content) {
    hash.update(part)
    yield part
  }
}

/**
 * Appends the body to the upload and returns the bytes it holds then; a body that breaks leaves it as it was. They
 * survive the end of the process, but a power cut only once the upload has ended: the disk works while the client asks on.
 * Throws BLOB_UPLOAD_INVALID (416) while another chunk arrives, SIZE_INVALID, DENIED over the quota.
 */
export async function receiveChunk(call: OciCall, upload: OpenUpload, chunkBytes: number | null): Promise<number> {
  const { ctx, request, registry } = call
  const maxBytes = roomOf(call, upload)
  const path = registry.uploads.pathOf(upload.id)
  try {
    return await registry.uploads.append(path, upload.receivedBytes, bodyStream(request), {
      maxBytes,
      owned: true,
      settleLater: true,
      ...(chunkBytes === null ? {} : { expectedBytes: chunkBytes }),
      commit: async (end) => {
        const moved = await advanceUpload(ctx.db, ctx.tenant.id, upload.id, upload.receivedBytes, end)
        if (!moved) throw ociError('BLOB_UPLOAD_UNKNOWN', { detail: { upload: upload.id } })
      },
    })
  } catch (error) {
    throw chunkError(error, upload)
  }
}

/** Moves what the upload holds durably into the blob store. Throws DIGEST_INVALID; the upload then stays as it is. */
export async function storeUpload(call: OciCall, upload: OpenUpload, digest: string): Promise<BlobLink> {
  const { ctx, registry } = call
  const path = registry.uploads.pathOf(upload.id)
  const size = upload.receivedBytes
  const contentDigest = await registry.uploads.digest(path, size)
  const algorithm = digestAlgorithm(digest)!
  requireSame(digest, algorithm === 'sha256' ? contentDigest : await digestOfFileBy(path, algorithm))
  const isDurable = await registry.uploads.settled(path, size)
  await ctx.blobs.adopt(path, { digest: contentDigest, isDurable })
  return { digest, contentDigest, size }
}

/** Makes stored content a blob of the repository and ends the upload that brought it. */
export async function linkBlob(
  { ctx, registry }: OciCall,
  name: string,
  link: BlobLink,
  upload: OpenUpload | null,
): Promise<Answer> {
  if (upload) {
    const path = registry.uploads.pathOf(upload.id)
    // What the upload brought lies in the blob store: its file is of no use, whether it can be ended or not.
    await Promise.all([endUpload(ctx.db, ctx.tenant.id, upload, link), registry.uploads.remove(path)])
  } else {
    await transaction(ctx, async (tx) => linkBlobs(tx, await ensureRepository(tx, ctx.tenant.id, name), [link]))
  }
  return new Answer({
    status: 201,
    headers: {
      location: `/v2/${name}/blobs/${link.digest}`,
      'docker-content-digest': link.digest,
      'content-length': '0',
    },
  })
}

/** How many bytes may come: what the quota leaves, and the longest upload at all. */
function roomOf({ ctx }: OciCall, { leftBytes, receivedBytes }: OpenUpload): number {
  if (leftBytes !== null && leftBytes <= 0) throw overQuota()
  return Math.min(leftBytes ?? Number.POSITIVE_INFINITY, ctx.config.maxUploadBytes - receivedBytes)
}

/** The same for a blob that comes without an upload. */
async function roomFor({ ctx, look }: OciCall): Promise<number> {
  const left = await look((tx) => quotaLeft(tx, ctx.tenant.id))
  if (left <= 0) throw overQuota()
  return Math.min(left, ctx.config.maxUploadBytes)
}

const overQuota = (): OciError => ociError('DENIED', { message: 'The tenant’s registry quota is used up.' })

function requireSame(given: string, computed: string): void {
  if (given !== computed) throw ociError('DIGEST_INVALID', { detail: { given, computed } })
}

/** Runs a write to the store; its refusals get the registry's names. */
async function naming<T>(digest: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    if (!(error instanceof PlatformError)) throw error
    if (error.code === 'bad_request') throw ociError('DIGEST_INVALID', { detail: error.detail ?? { digest } })
    throw error.code === 'payload_too_large' ? overQuota() : error
  }
}

function chunkError(error: unknown, upload: OpenUpload): unknown {
  if (!(error instanceof PlatformError)) return error
  switch (error.code) {
    case 'conflict':
    case 'range_not_satisfiable':
      return ociError('BLOB_UPLOAD_INVALID', {
        message: error.message,
        headers: { range: uploadRange(upload.receivedBytes) },
      })
    case 'bad_request':
      return ociError('SIZE_INVALID', { detail: error.detail })
    case 'payload_too_large':
      return overQuota()
    default:
      return error
  }
}
