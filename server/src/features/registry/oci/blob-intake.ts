import { PlatformError } from '../../../platform/errors.ts'
import { Answer } from '../../../platform/http/answer.ts'
import { bodyLength, bodyStream } from '../../../platform/http/bodies.ts'
import { transaction } from '../../../platform/transaction.ts'
import { type BlobLink, linkBlobs } from '../blobs.store.ts'
import { ensureRepository } from '../repositories.store.ts'
import { advanceUpload, endUpload, type OpenUpload } from '../uploads.store.ts'
import type { OciCall } from './oci-call.ts'
import { digestAlgorithm, digestOfFileBy } from './oci-digest.ts'
import { ociError } from './oci-errors.ts'
import { uploadRange } from './oci-ranges.ts'
import { hasEnded, overQuota, withRoom } from './upload-room.ts'

/** Takes the body as one whole blob, checked while it is written. Throws DIGEST_INVALID, DENIED over the quota. */
export function receiveWhole(call: OciCall, upload: OpenUpload, digest: string): Promise<BlobLink> {
  const { ctx, request } = call
  return withRoom(call, upload, bodyLength(request), async (room) => {
    const { size } = await naming(digest, () =>
      ctx.blobs.put(bodyStream(request), { ...room, expected: digest, owned: true }),
    )
    return { digest, contentDigest: digest, size }
  })
}

/**
 * Appends the body to the upload and returns the bytes it holds then; a body that breaks leaves it as it was. They
 * survive the end of the process, but a power cut only once the upload has ended: the disk works while the client asks on.
 * Throws BLOB_UPLOAD_INVALID (416) while another chunk arrives, SIZE_INVALID, DENIED over the quota.
 */
export async function receiveChunk(call: OciCall, upload: OpenUpload, chunkBytes: number | null): Promise<number> {
  const { ctx, request, registry } = call
  const path = registry.uploads.pathOf(upload.id)
  try {
    return await withRoom(call, upload, chunkBytes, (room) =>
      registry.uploads.append(path, upload.receivedBytes, bodyStream(request), {
        ...room,
        owned: true,
        settleLater: true,
        ...(chunkBytes === null ? {} : { expectedBytes: chunkBytes }),
        commit: async (end) => {
          const moved = await advanceUpload(ctx.db, ctx.tenant.id, upload.id, upload.receivedBytes, end)
          if (!moved) throw hasEnded(upload)
        },
      }),
    )
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
    const [ended] = await Promise.all([endUpload(ctx.db, ctx.tenant.id, upload, link), registry.uploads.remove(path)])
    if (!ended) throw hasEnded(upload)
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
