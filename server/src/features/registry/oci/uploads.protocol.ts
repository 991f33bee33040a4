import { Answer } from '../../../platform/http/answer.ts'
import { bodyLength } from '../../../platform/http/bodies.ts'
import { transaction } from '../../../platform/transaction.ts'
import { deleteUpload, startUpload as insertUpload, type OpenUpload, openUpload } from '../uploads.store.ts'
import { linkBlob, receiveChunk, receiveWhole, storeUpload } from './blob-intake.ts'
import { findMountable } from './blob-mounts.ts'
import type { OciCall } from './oci-call.ts'
import { digestAlgorithm, digestOfBytes } from './oci-digest.ts'
import { ociError } from './oci-errors.ts'
import { type OciRoute, parseUploadEnd, parseUploadStart } from './oci-paths.ts'
import { requireNextChunk, uploadRange } from './oci-ranges.ts'

type UploadRoute = Extract<OciRoute, { kind: 'upload' }>

/** Uploads that a tenant may have under way at once: each takes a row and, with its first byte, a file. */
const uploadsMax = 1000

/** `POST <name>/blobs/uploads/`: a session, a mount, or the whole blob at once. @source contract B9.9, B9.10 */
export async function startUpload(call: OciCall, name: string): Promise<Answer> {
  const start = parseUploadStart(call.query)
  if (start.kind === 'mount') {
    const link = await findMountable(call, start)
    if (link) return linkBlob(call, name, link, null)
  }
  const id = await insertUpload(call.ctx.db, call.ctx.tenant.id, name, uploadsMax)
  if (!id) {
    const message = `The tenant has ${uploadsMax} uploads under way; finish or cancel some. They end after a day.`
    throw ociError('TOOMANYREQUESTS', { message, headers: { 'retry-after': '60' } })
  }
  if (start.kind === 'monolithic' && hasBody(call, start.digest)) return uploadAtOnce(call, { name, id }, start.digest)
  return new Answer({ status: 202, headers: progressHeaders({ name, id, receivedBytes: 0 }) })
}

/** An upload that nobody else knows of: it goes when it fails, and expires when that fails too. */
async function uploadAtOnce(call: OciCall, place: { name: string; id: string }, digest: string): Promise<Answer> {
  const upload = await findUpload(call, place)
  try {
    return await endUpload(call, upload, digest)
  } catch (error) {
    await cancelUpload(call, upload).catch(() => undefined)
    throw error
  }
}

async function findUpload({ ctx }: OciCall, place: { name: string; id: string }): Promise<OpenUpload> {
  const upload = await openUpload(ctx.db, ctx.tenant.id, place)
  if (!upload) throw ociError('BLOB_UPLOAD_UNKNOWN', { detail: { upload: place.id } })
  return upload
}

/** Some clients name the digest and send the bytes later: only the empty blob comes with no body. */
function hasBody({ request }: OciCall, digest: string): boolean {
  return bodyLength(request) !== 0 || digest === digestOfBytes(Buffer.alloc(0), digestAlgorithm(digest) ?? 'sha256')
}

export async function answerUpload(call: OciCall, { method, name, uploadId }: UploadRoute): Promise<Answer> {
  const digest = method === 'PUT' ? parseUploadEnd(call.query) : null
  const upload = await findUpload(call, { name, id: uploadId })
  switch (method) {
    case 'GET':
      return new Answer({ status: 204, headers: progressHeaders(upload) })
    case 'PATCH':
      return patchUpload(call, upload)
    case 'PUT':
      return endUpload(call, upload, digest!)
    case 'DELETE':
      return cancelUpload(call, upload)
  }
}

async function patchUpload(call: OciCall, upload: OpenUpload): Promise<Answer> {
  const receivedBytes = await receiveChunk(call, upload, nextChunk(call, upload))
  return new Answer({ status: 202, headers: progressHeaders({ ...upload, receivedBytes }) })
}

async function endUpload(call: OciCall, upload: OpenUpload, digest: string): Promise<Answer> {
  const chunkBytes = nextChunk(call, upload)
  // All of it in one piece needs no file to wait in.
  if (upload.receivedBytes === 0 && digestAlgorithm(digest) === 'sha256') {
    return linkBlob(call, upload.name, await receiveWhole(call, upload, digest), upload)
  }
  const receivedBytes = chunkBytes === 0 ? upload.receivedBytes : await receiveChunk(call, upload, chunkBytes)
  const link = await storeUpload(call, { ...upload, receivedBytes }, digest)
  return linkBlob(call, upload.name, link, upload)
}

async function cancelUpload({ ctx, registry }: OciCall, upload: OpenUpload): Promise<Answer> {
  await transaction(ctx, (tx) => deleteUpload(tx, upload.id))
  await registry.uploads.remove(registry.uploads.pathOf(upload.id))
  return new Answer({ status: 204 })
}

/** Length of the chunk in bytes, null when unknown. Throws BLOB_UPLOAD_INVALID (416), SIZE_INVALID. */
function nextChunk({ request }: OciCall, upload: OpenUpload): number | null {
  const length = request.headers['transfer-encoding'] ? null : (bodyLength(request) ?? 0)
  try {
    return requireNextChunk(request.headers['content-range'], upload.receivedBytes, length)
  } catch (error) {
    throw withProgress(error, upload)
  }
}

/** A refused chunk is told with the place to go on from. */
function withProgress(error: unknown, upload: OpenUpload): unknown {
  const { headers } = error as { headers?: Record<string, string> }
  if (headers) Object.assign(headers, progressHeaders(upload))
  return error
}

/** @source contract B9.9 */
function progressHeaders({ name, id, receivedBytes }: { name: string; id: string; receivedBytes: number }) {
  return {
    location: `/v2/${name}/blobs/uploads/${id}?_state=${receivedBytes}`,
    range: uploadRange(receivedBytes),
    'docker-upload-uuid': id,
    'content-length': '0',
  }
}
