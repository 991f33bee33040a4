import { audited } from '../../../platform/audit.ts'
import { Answer } from '../../../platform/http/answer.ts'
import { ContentAnswer, matchesEtag, requestedRange } from '../../../platform/http/content.ts'
import { transaction } from '../../../platform/transaction.ts'
import { findBlobByName, findTenantBlob, type LinkedBlob, touchBlobs, unlinkBlob } from '../blobs.store.ts'
import { requireUnheld } from '../manifests.service.ts'
import { lockRepository } from '../repositories.store.ts'
import type { OciCall } from './oci-call.ts'
import { ociError } from './oci-errors.ts'
import type { OciRoute } from './oci-paths.ts'

type BlobRoute = Extract<OciRoute, { kind: 'blob' }>

/** A client that was told that a blob is there may rely on it for as long again before the sweep's day is over. */
const touchAfterMs = 12 * 3600_000

export function answerBlob(call: OciCall, route: BlobRoute): Promise<Answer> {
  return route.method === 'DELETE' ? removeBlob(call, route) : getBlob(call, route)
}

/** @source contract B9.11, RFC 9110 §14 */
async function getBlob(call: OciCall, { method, name, digest }: BlobRoute): Promise<Answer> {
  const { ctx, request } = call
  const blob = call.shared
    ? await call.look((tx) => findBlobByName(tx, name, digest))
    : await findTenantBlob(ctx.db, ctx.tenant.id, name, digest)
  if (!blob || (method === 'HEAD' && !(await stays(call, blob)))) {
    throw ociError('BLOB_UNKNOWN', { detail: { name, digest } })
  }
  const etag = `"${digest}"`
  const headers: Record<string, string> = {
    'content-type': 'application/octet-stream',
    'docker-content-digest': digest,
    'accept-ranges': 'bytes',
    etag,
  }
  if (matchesEtag(request.headers['if-none-match'], etag)) return new Answer({ status: 304, headers: { etag } })
  const range = requestedRange(request, etag, blob.size)
  const part = range ?? { start: 0, end: blob.size - 1 }
  headers['content-length'] = String(part.end - part.start + 1)
  if (range) headers['content-range'] = `bytes ${range.start}-${range.end}/${blob.size}`
  const status = range ? 206 : 200
  if (method === 'HEAD') return new Answer({ status, headers })
  return new ContentAnswer({ status, headers }, await ctx.blobs.reader(blob.contentDigest), part)
}

/** Makes sure that the blob is there for a day; false when a sweep took it a moment ago. */
async function stays({ look }: OciCall, { repositoryId, digest, touchedAt }: LinkedBlob): Promise<boolean> {
  if (Date.now() - touchedAt.getTime() <= touchAfterMs) return true
  return (await look((tx) => touchBlobs(tx, repositoryId, [digest]))).has(digest)
}

/** Out of this repository alone; others that have it keep it. @source contract B9.12 */
async function removeBlob(call: OciCall, { name, digest }: BlobRoute): Promise<Answer> {
  const { ctx } = call
  audited(ctx, name, { digest })
  await transaction(ctx, async (tx) => {
    const repository = await lockRepository(tx, name)
    if (!repository) throw ociError('NAME_UNKNOWN', { detail: { name } })
    await requireUnheld(tx, repository, digest)
    if (!(await unlinkBlob(tx, repository.id, digest))) throw ociError('BLOB_UNKNOWN', { detail: { name, digest } })
  })
  return new Answer({ status: 202, headers: { 'content-length': '0' } })
}
