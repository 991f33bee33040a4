import type { Readable } from 'node:stream'
import { audited } from '../../platform/audit.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { transaction as scoped } from '../../platform/db/transaction.ts'
import {
  badRequest,
  conflict,
  type FieldFault,
  invalid,
  notFound,
  PlatformError,
  payloadTooLarge,
  rangeNotSatisfiable,
} from '../../platform/errors.ts'
import { cancelRun, startRun } from '../../platform/runs/runs.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { archivePath, arrivals, prepareImportFolder, removeImportFiles } from './import-files.ts'
import { importRun } from './imports.runs.ts'
import {
  advanceImport,
  deleteImport,
  findImport,
  type ImportRow,
  insertImport,
  listImports,
  lockImport,
  updateLiveImport,
} from './imports.store.ts'
import { isRepositoryName, isTag } from './oci/oci-paths.ts'
import { quotaLeft } from './quota.ts'

/** @source service §8 */
const chunkSizeBytes = 32 * 1024 * 1024
const dayMs = 86_400_000

const missing = () => notFound('There is no such import.')
const hasEnded = ({ status }: ImportRow) => status !== 'UPLOADING' && status !== 'RUNNING'

/** Of those that have ended only the last `days`; 0 means all. */
export function listRegistryImports(ctx: TenantCtx, days: number): Promise<ImportRow[]> {
  const since = days === 0 ? null : new Date(ctx.clock.now().getTime() - days * dayMs)
  return read(ctx, (tx) => listImports(tx, ctx.tenant.id, since))
}

export async function getImport(ctx: TenantCtx, id: string): Promise<ImportRow> {
  const row = await read(ctx, (tx) => findImport(tx, ctx.tenant.id, id))
  if (!row) throw missing()
  return row
}

export interface ImportRequest {
  repository?: string | null
  tag?: string | null
  size_bytes: number
  filename?: string | null
}

/** Throws 422 for names that are none, `conflict` when the quota leaves no room. @source contract B6.1 */
export async function createImport(ctx: TenantCtx, request: ImportRequest): Promise<ImportRow> {
  requireNames(ctx, request)
  await prepareImportFolder(ctx.config)
  return transaction(ctx, async (tx) => {
    const left = await quotaLeft(tx, ctx.tenant.id)
    if (request.size_bytes > left) {
      throw conflict('The archive is larger than what the tenant’s registry quota leaves.', {
        detail: { reason: 'quota_exceeded', left_bytes: left },
      })
    }
    const row = await insertImport(tx, {
      tenantId: ctx.tenant.id,
      repository: request.repository || null,
      tag: request.tag || null,
      filename: request.filename || null,
      sizeBytes: request.size_bytes,
      chunkSize: chunkSizeBytes,
      createdBy: ctx.actor.email,
    })
    audited(ctx, row.id, { repository: row.repository, tag: row.tag, size_bytes: row.sizeBytes })
    return row
  })
}

function requireNames(ctx: TenantCtx, { repository, tag, size_bytes: size }: ImportRequest): void {
  const faults: FieldFault[] = []
  const fault = (field: string, msg: string, type = 'string_pattern_mismatch') =>
    faults.push({ loc: ['body', field], msg, type })
  if (repository && !isRepositoryName(`${ctx.tenant.code}/${repository}`)) {
    fault('repository', 'lower-case letters and digits, with . _ - between them and / between parts')
  }
  if (tag && !isTag(tag)) fault('tag', 'letters, digits, _ . - ; at most 128, not starting with . or -')
  if (size > ctx.config.maxUploadBytes) fault('size_bytes', 'is more than this installation takes', 'less_than_equal')
  if (faults.length > 0) throw invalid(faults)
}

export interface Chunk {
  contentRange: string | undefined
  /** Null when not announced. */
  contentLength: number | null
  content: Readable
  signal: AbortSignal
}

/** Appends the next chunk. Throws 400, 409, 413, 416 and 422 as in contract B6.2; a broken body leaves nothing. */
export async function receiveImportChunk(ctx: TenantCtx, id: string, chunk: Chunk): Promise<ImportRow> {
  const range = parseRange(chunk.contentRange)
  const row = await getImport(ctx, id)
  const length = range.end - range.start + 1
  requireFitting(row, range, chunk.contentLength)
  try {
    await arrivals.append(archivePath(ctx.config, id), row.receivedBytes, chunk.content, {
      expectedBytes: length,
      signal: chunk.signal,
      commit: async (end) => {
        const moved = await scoped(ctx.db, ctx.scope, (tx) => advanceImport(tx, id, row.receivedBytes, end))
        if (!moved) throw conflict('The import ended or moved on meanwhile.')
      },
    })
  } catch (error) {
    if (!(error instanceof PlatformError) || error.code !== 'payload_too_large') throw error
    throw badRequest('The body is longer than its Content-Range says.', { detail: { expected: length } })
  }
  return getImport(ctx, id)
}

interface SentRange {
  start: number
  end: number
  total: number
}

function parseRange(header: string | undefined): SentRange {
  const match = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/.exec(header?.trim() ?? '')
  const [start, end, total] = [Number(match?.[1]), Number(match?.[2]), Number(match?.[3])]
  if (!match || end < start || end >= total) {
    throw invalid({
      loc: ['header', 'content-range'],
      msg: 'send Content-Range: bytes <first>-<last>/<total>',
      type: header === undefined ? 'missing' : 'value_error',
    })
  }
  return { start, end, total }
}

function requireFitting(row: ImportRow, { start, end, total }: SentRange, contentLength: number | null): void {
  if (row.status !== 'UPLOADING')
    throw conflict('This import takes no more chunks.', { detail: { status: row.status } })
  const length = end - start + 1
  if (total !== row.sizeBytes) {
    throw badRequest('The total is not the announced size.', { detail: { size_bytes: row.sizeBytes } })
  }
  if (contentLength !== null && contentLength !== length) {
    throw badRequest('Content-Range and Content-Length disagree.', { detail: { expected: length } })
  }
  if (length > row.chunkSize) {
    throw payloadTooLarge('The chunk is too long.', { detail: { chunk_size: row.chunkSize } })
  }
  if (start !== row.receivedBytes) {
    throw rangeNotSatisfiable('This is not the next chunk.', { detail: { offset: row.receivedBytes } })
  }
}

/** Throws `conflict` with `detail.offset` while bytes are missing, and when it was started before. @source contract B6.3 */
export function startImport(ctx: TenantCtx, id: string): Promise<ImportRow> {
  return transaction(ctx, async (tx) => {
    const row = await lockImport(tx, ctx.tenant.id, id)
    if (!row) throw missing()
    if (row.status !== 'UPLOADING') throw conflict('It was started before.', { detail: { status: row.status } })
    if (row.receivedBytes < row.sizeBytes) {
      throw conflict('The archive has not arrived whole.', { detail: { offset: row.receivedBytes } })
    }
    audited(ctx, id)
    const runId = await startRun(tx, ctx, importRun, { importId: id }, { subject: `registry-import:${id}` })
    return (await updateLiveImport(tx, id, { status: 'RUNNING', phase: 'assemble', runId }))!
  })
}

/** Throws `conflict` for one that has ended. */
export async function cancelImport(ctx: TenantCtx, id: string): Promise<ImportRow> {
  const { before, after } = await transaction(ctx, async (tx) => {
    const row = await lockImport(tx, ctx.tenant.id, id)
    if (!row) throw missing()
    if (hasEnded(row)) throw conflict('It has ended already.', { detail: { status: row.status } })
    audited(ctx, id)
    if (row.runId) await cancelRun(tx, row.runId, `canceled by ${ctx.actor.email}`)
    return { before: row, after: (await updateLiveImport(tx, id, { status: 'CANCELED' }))! }
  })
  // A run tidies up after itself.
  if (!before.runId) await removeImportFiles(ctx.config, id)
  return after
}

/** Removes the record of one that has ended; its images stay. Throws `conflict` for one that goes on. */
export function removeImport(ctx: TenantCtx, id: string): Promise<ImportRow> {
  return transaction(ctx, async (tx) => {
    const row = await lockImport(tx, ctx.tenant.id, id)
    if (!row) throw missing()
    if (!hasEnded(row)) throw conflict('It has not ended; cancel it first.', { detail: { status: row.status } })
    audited(ctx, id)
    await deleteImport(tx, id)
    return row
  })
}
