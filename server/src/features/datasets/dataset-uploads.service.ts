import { audited } from '../../platform/audit.ts'
import { type ChunkInfo, openChunkFile } from '../../platform/blobs/chunk-file.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { badRequest, conflict, invalid, notFound, payloadTooLarge } from '../../platform/errors.ts'
import { listSteps, startRun } from '../../platform/runs/runs.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { verified } from './chunk-digest.ts'
import { requireDataset, requireUnsynced, requireWritable } from './dataset-access.ts'
import { assembleUpload, roomIn } from './dataset-assembly.runs.ts'
import {
  deleteUpload,
  findUpload,
  hasChunk,
  insertUpload,
  listChunks,
  listOpenUploads,
  liveUploadsOf,
  lockUpload,
  type Received,
  recordChunk,
  type UploadRow,
  updateUpload,
} from './dataset-uploads.store.ts'
import { getDataset } from './datasets.service.ts'
import { type DatasetRow, settleDataset } from './datasets.store.ts'
import { uploadDigests } from './upload-digests.ts'
import { removeUploadFolder, uploadPath } from './upload-folders.ts'
import { baseName } from './upload-names.ts'
import { uploadWrites } from './upload-writes.ts'

export const defaultChunkBytes = 32 * 1024 * 1024
const chunksMax = 100_000
/** Sessions under way on one dataset: their number bounds their list, and how much of the disk may wait to be used. */
export const openUploadsMax = 100

const noUpload = () => notFound('There is no such upload session.')

export interface UploadRequest {
  filename: string
  size: number
  sha256?: string | null
  chunk_size?: number | null
}

/** Opens a session. @source service §3.3, contract B5.1, B5.3 */
export async function createUpload(ctx: TenantCtx, datasetId: string, request: UploadRequest): Promise<UploadRow> {
  const filename = baseName(request.filename)
  const chunkSize = Math.min(request.chunk_size ?? defaultChunkBytes, defaultChunkBytes)
  if (Math.ceil(request.size / chunkSize) > chunksMax)
    throw invalid({
      loc: ['body', 'chunk_size'],
      msg: `makes more than ${chunksMax} chunks; take larger ones`,
      type: 'value_error',
      input: chunkSize,
    })
  if (request.size > ctx.config.maxUploadBytes)
    throw payloadTooLarge(undefined, { detail: { max_bytes: ctx.config.maxUploadBytes } })
  audited(ctx, datasetId, { filename, size: request.size })
  return transaction(ctx, async (tx) => {
    const dataset = await requireWritable(tx, ctx, datasetId)
    await requireRoom(tx, ctx, dataset, request.size)
    const sha256 = request.sha256?.toLowerCase() ?? null
    const upload = { datasetId, filename, size: request.size, sha256, chunkSize, createdBy: ctx.actor.email }
    const row = await insertUpload(tx, ctx.tenant.id, upload, ctx.clock.now())
    await settleDataset(tx, ctx.tenant.id, datasetId)
    return row
  })
}

/** Says at the beginning what would else be found out when everything has been sent. */
async function requireRoom(tx: Tx, ctx: TenantCtx, dataset: DatasetRow, size: number): Promise<void> {
  const room = roomIn(ctx, dataset)
  if (size > room)
    throw payloadTooLarge('The dataset has not so much room.', {
      detail: { reason: 'quota_exceeded', room_bytes: room },
    })
  const live = await liveUploadsOf(tx, ctx.tenant.id, dataset.id)
  if (live.length >= openUploadsMax)
    throw conflict(`The dataset has ${live.length} uploads under way: complete or abort one first.`, {
      detail: { reason: 'too_many_uploads', max: openUploadsMax },
    })
}

export interface UploadProgress {
  upload: UploadRow
  /** Indexes, ascending. */
  received: number[]
  /** How far the background work is; absent before and after it. */
  assembly?: { progress: number; message: string | null }
}

export async function getUpload(ctx: TenantCtx, datasetId: string, id: string): Promise<UploadProgress> {
  await getDataset(ctx, datasetId)
  return read(ctx, async (tx) => {
    const upload = await findUpload(tx, ctx.tenant.id, datasetId, id, ctx.clock.now())
    if (!upload) throw noUpload()
    const received = await receivedOf(tx, upload)
    if (upload.state !== 'assembling' || !upload.runId) return { upload, received }
    const steps = await listSteps(tx, upload.runId)
    const current = steps.find((step) => step.state === 'running')
    const progress = steps.reduce((sum, step) => sum + step.progress, 0) / Math.max(1, steps.length)
    return { upload, received, assembly: { progress, message: current ? (current.message ?? current.title) : null } }
  })
}

/** Once all chunks came they are not kept one by one. */
async function receivedOf(tx: Tx, upload: UploadRow): Promise<number[]> {
  if (upload.receivedChunks < chunkCount(upload)) return listChunks(tx, upload.id)
  return Array.from({ length: chunkCount(upload) }, (_, index) => index)
}

const chunkCount = (upload: UploadRow) => Math.ceil(upload.size / upload.chunkSize)

/** @source contract PR-34 */
export async function listUploads(ctx: TenantCtx, datasetId: string): Promise<UploadProgress[]> {
  await getDataset(ctx, datasetId)
  return read(ctx, async (tx) => {
    const uploads = await listOpenUploads(tx, ctx.tenant.id, datasetId, ctx.clock.now())
    const progress: UploadProgress[] = []
    for (const upload of uploads) progress.push({ upload, received: await receivedOf(tx, upload) })
    return progress
  })
}

export interface IncomingChunk {
  index: number
  content: AsyncIterable<Uint8Array>
  /** As announced by the client, or null. */
  lengthBytes: number | null
  /** SHA-256 as announced by the client, or null. */
  digest: Buffer | null
  signal: AbortSignal
}

/** Takes one chunk to its place and records it, both durable, before it answers. @source contract B5.4 */
export function putChunk(ctx: TenantCtx, datasetId: string, id: string, chunk: IncomingChunk): Promise<Received> {
  return uploadWrites.run(id, chunk.signal, (signal) => writeChunk(ctx, datasetId, id, { ...chunk, signal }))
}

async function writeChunk(ctx: TenantCtx, datasetId: string, id: string, chunk: IncomingChunk): Promise<Received> {
  const { index, content, lengthBytes, digest, signal } = chunk
  const { upload, alreadyReceived } = await read(ctx, async (tx) => {
    const upload = await findUpload(tx, ctx.tenant.id, datasetId, id, ctx.clock.now())
    if (!upload) throw noUpload()
    await requireUnsynced(tx, ctx, datasetId)
    return { upload, alreadyReceived: await hasChunk(tx, id, index) }
  })
  if (upload.state !== 'open') throw notOpen(upload)
  const expected = Math.min(upload.chunkSize, upload.size - index * upload.chunkSize)
  if (expected > 0 && lengthBytes !== null && lengthBytes > expected)
    throw payloadTooLarge('The chunk is larger than the session takes at this index.', {
      detail: { chunk_size: upload.chunkSize, expected },
    })
  if (expected > 0 && lengthBytes !== null && lengthBytes < expected)
    throw badRequest(`The chunk has ${lengthBytes} of ${expected} bytes.`, {
      detail: { expected, received: lengthBytes },
    })
  const path = await uploadPath(ctx, upload.id)
  const file = await openChunkFile(path, upload)
  let received: Received | null = null
  const commit = async ({ size, sha256 }: ChunkInfo) => {
    received = await transaction(ctx, async (tx) => {
      const recorded = await recordChunk(tx, upload, { index, size, sha256 }, ctx.clock.now())
      if (!recorded) throw notOpen(upload)
      return recorded
    })
    uploadDigests.note(id, { path, size: upload.size, chunkSize: upload.chunkSize }, { index, sha256 })
  }
  try {
    await file.writeChunk(index, verified(content, digest), { alreadyReceived, owned: true, signal, commit })
  } catch (error) {
    uploadDigests.noteFailure(id, index)
    throw error
  }
  return received!
}

const notOpen = (upload: UploadRow) =>
  conflict('The session takes no more chunks.', { detail: { reason: 'not_open', state: upload.state } })

/** Begins the assembly in the background; asking again is no error while it runs or when it is done. */
export async function completeUpload(ctx: TenantCtx, datasetId: string, id: string): Promise<UploadProgress> {
  audited(ctx, datasetId, { upload: id })
  return transaction(ctx, async (tx) => {
    await requireDataset(tx, ctx, datasetId)
    const upload = await lockUpload(tx, ctx.tenant.id, datasetId, id, ctx.clock.now())
    if (!upload) throw noUpload()
    if (upload.state === 'failed')
      throw conflict('The upload failed; open a new session.', { detail: { reason: 'failed', error: upload.error } })
    const received = await receivedOf(tx, upload)
    if (upload.state !== 'open') return { upload, received }
    await requireWritable(tx, ctx, datasetId)
    if (received.length < chunkCount(upload))
      throw conflict('Chunks are missing.', { detail: { missing: missingOf(received, chunkCount(upload)) } })
    const runId = await startRun(tx, ctx, assembleUpload, { uploadId: id, datasetId }, { subject: `upload:${id}` })
    await updateUpload(tx, id, { state: 'assembling', runId, error: null })
    await settleDataset(tx, ctx.tenant.id, datasetId)
    return { upload: { ...upload, state: 'assembling' as const, runId, error: null }, received }
  })
}

function missingOf(received: number[], count: number): number[] {
  const there = new Set(received)
  return Array.from({ length: count }, (_, index) => index).filter((index) => !there.has(index))
}

/** @source contract PR-35 */
export async function abortUpload(ctx: TenantCtx, datasetId: string, id: string): Promise<void> {
  audited(ctx, datasetId, { upload: id })
  await transaction(ctx, async (tx) => {
    await requireDataset(tx, ctx, datasetId)
    const upload = await lockUpload(tx, ctx.tenant.id, datasetId, id, ctx.clock.now())
    if (!upload) throw noUpload()
    if (upload.state !== 'open') throw notOpen(upload)
    await deleteUpload(tx, id)
    uploadDigests.forget(id)
    await settleDataset(tx, ctx.tenant.id, datasetId)
  })
  await removeUploadFolder(ctx, id)
}
