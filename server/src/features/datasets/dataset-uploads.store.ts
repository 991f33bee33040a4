import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'
import type { NewFile } from './dataset-files.store.ts'
import type { UploadState } from './datasets.states.ts'
import { storableJson } from './storable-text.ts'

export interface UploadResult {
  created: number
  skipped: { path: string; reason: string }[]
  /** Of which `skipped` names the first. */
  skipped_total: number
  file_ids: string[]
}

export interface UploadError {
  code: string
  message: string
}

/** A session that nobody touches for this long is gone. @source contract B5.3 */
export const idleMs = 24 * 3600_000

export interface UploadRow {
  id: string
  tenantId: string
  datasetId: string
  filename: string
  size: number
  sha256: string | null
  chunkSize: number
  state: UploadState
  receivedChunks: number
  receivedBytes: number
  result: UploadResult | null
  error: UploadError | null
  runId: string | null
  createdBy: string
  createdAt: Date
  touchedAt: Date
  endedAt: Date | null
}

export type NewUpload = Pick<UploadRow, 'datasetId' | 'filename' | 'size' | 'sha256' | 'chunkSize' | 'createdBy'> &
  Partial<Pick<UploadRow, 'id' | 'state' | 'receivedChunks' | 'receivedBytes' | 'runId'>>

export async function insertUpload(tx: Tx, tenantId: string, upload: NewUpload, now: Date): Promise<UploadRow> {
  return tx
    .insertInto('datasetUploads')
    .values({ id: newId(), tenantId, ...upload, createdAt: now, touchedAt: now })
    .returningAll()
    .$castTo<UploadRow>()
    .executeTakeFirstOrThrow()
}

const select = (tx: Tx, tenantId: string, datasetId: string, now: Date) =>
  tx
    .selectFrom('datasetUploads')
    .selectAll()
    .where('tenantId', '=', tenantId)
    .where('datasetId', '=', datasetId)
    .where((eb) => eb.or([eb('state', '!=', 'open'), eb('touchedAt', '>', new Date(now.getTime() - idleMs))]))
    .$castTo<UploadRow>()

/** A session of the dataset; an idle one counts as gone. */
export const findUpload = (tx: Tx, tenantId: string, datasetId: string, id: string, now: Date) =>
  select(tx, tenantId, datasetId, now).where('id', '=', id).executeTakeFirst()

export const lockUpload = (tx: Tx, tenantId: string, datasetId: string, id: string, now: Date) =>
  select(tx, tenantId, datasetId, now).where('id', '=', id).forUpdate().executeTakeFirst()

/** By its id alone, however long it has been idle. */
export const findUploadById = (tx: Tx, tenantId: string, id: string): Promise<UploadRow | undefined> =>
  tx
    .selectFrom('datasetUploads')
    .selectAll()
    .where('tenantId', '=', tenantId)
    .where('id', '=', id)
    .$castTo<UploadRow>()
    .executeTakeFirst()

/** Sessions under way, oldest first. */
export const listOpenUploads = (tx: Tx, tenantId: string, datasetId: string, now: Date): Promise<UploadRow[]> =>
  select(tx, tenantId, datasetId, now)
    .where('state', 'in', ['open', 'assembling'])
    .orderBy('createdAt')
    .orderBy('id')
    .execute()

export async function listChunks(tx: Tx, uploadId: string): Promise<number[]> {
  const rows = await tx
    .selectFrom('datasetUploadChunks')
    .select('chunkIndex')
    .where('uploadId', '=', uploadId)
    .orderBy('chunkIndex')
    .execute()
  return rows.map((row) => row.chunkIndex)
}

/** Chunks of a complete session, in order. */
export const listChunkDigests = (tx: Tx, uploadId: string): Promise<{ index: number; sha256: string }[]> =>
  tx
    .selectFrom('datasetUploadChunks')
    .select(['chunkIndex as index', 'sha256'])
    .where('uploadId', '=', uploadId)
    .orderBy('chunkIndex')
    .execute()

export async function hasChunk(tx: Tx, uploadId: string, index: number): Promise<boolean> {
  const row = await tx
    .selectFrom('datasetUploadChunks')
    .select('chunkIndex')
    .where('uploadId', '=', uploadId)
    .where('chunkIndex', '=', index)
    .executeTakeFirst()
  return row !== undefined
}

export interface Received {
  receivedChunks: number
  receivedBytes: number
}

/** Records a chunk as received; null when the session takes no more. */
export async function recordChunk(
  tx: Tx,
  upload: UploadRow,
  chunk: { index: number; size: number; sha256: string },
  now: Date,
): Promise<Received | null> {
  const locked = await tx
    .selectFrom('datasetUploads')
    .select('state')
    .where('id', '=', upload.id)
    .forUpdate()
    .executeTakeFirst()
  if (locked?.state !== 'open') return null
  const { rows } = await sql<{ fresh: boolean }>`
    insert into dataset_upload_chunks (upload_id, tenant_id, chunk_index, size, sha256)
    values (${upload.id}, ${upload.tenantId}, ${chunk.index}, ${chunk.size}, ${chunk.sha256})
    on conflict (upload_id, chunk_index) do update set sha256 = excluded.sha256
    returning xmax = 0 as fresh`.execute(tx)
  const added = rows[0]!.fresh ? { chunks: 1, bytes: chunk.size } : { chunks: 0, bytes: 0 }
  return tx
    .updateTable('datasetUploads')
    .set({
      receivedChunks: sql`received_chunks + ${added.chunks}`,
      receivedBytes: sql`received_bytes + ${added.bytes}`,
      touchedAt: now,
    })
    .where('id', '=', upload.id)
    .returning(['receivedChunks', 'receivedBytes'])
    .executeTakeFirstOrThrow()
}

export interface UploadChange {
  state?: UploadState
  runId?: string
  result?: UploadResult
  error?: UploadError | null
  endedAt?: Date
}

export async function updateUpload(tx: Tx, id: string, { result, error, ...change }: UploadChange): Promise<void> {
  await tx
    .updateTable('datasetUploads')
    .set({
      ...change,
      ...(result ? { result: storableJson(result) } : {}),
      ...(error === undefined ? {} : { error: error && storableJson(error) }),
    })
    .where('id', '=', id)
    .execute()
}

/** Remembers members of the archive that are in the blob store; those that are remembered already stay. */
export async function stageMembers(
  tx: Tx,
  upload: { id: string; tenantId: string },
  members: NewFile[],
): Promise<void> {
  const column = (key: keyof NewFile) => members.map((member) => member[key])
  await sql`
    insert into dataset_upload_members (upload_id, tenant_id, path, file_id, digest, size, media_type, kind,
      inspection)
    select ${upload.id}, ${upload.tenantId}, n.* from unnest(${column('path')}::text[],
      ${members.map(() => newId())}::uuid[], ${column('digest')}::text[],
      ${column('size')}::bigint[], ${column('mediaType')}::text[], ${column('kind')}::text[],
      ${members.map(({ inspection }) => inspection && storableJson(inspection))}::jsonb[]) as n
    on conflict (upload_id, path) do nothing`.execute(tx)
}

/** Paths that were staged before an interruption. */
export async function stagedPaths(tx: Tx, uploadId: string): Promise<Set<string>> {
  const rows = await tx.selectFrom('datasetUploadMembers').select('path').where('uploadId', '=', uploadId).execute()
  return new Set(rows.map((row) => row.path))
}

/** Makes a session that could not be assembled take chunks and be completed again; what was unpacked is forgotten. */
export async function reopenUpload(tx: Tx, uploadId: string, error: UploadError): Promise<void> {
  await tx
    .updateTable('datasetUploads')
    .set({ state: 'open', runId: null, error: storableJson(error), touchedAt: sql`now()` })
    .where('id', '=', uploadId)
    .execute()
  await tx.deleteFrom('datasetUploadMembers').where('uploadId', '=', uploadId).execute()
}

/** What is left of an ended session needs neither chunks nor members. */
export async function clearUpload(tx: Tx, uploadId: string): Promise<void> {
  await tx.deleteFrom('datasetUploadChunks').where('uploadId', '=', uploadId).execute()
  await tx.deleteFrom('datasetUploadMembers').where('uploadId', '=', uploadId).execute()
}

export async function deleteUpload(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('datasetUploads').where('id', '=', id).execute()
}

/** Of every tenant: sessions whose day is over. */
export async function listIdleUploads(tx: Tx, now: Date): Promise<UploadRow[]> {
  return tx
    .selectFrom('datasetUploads')
    .selectAll()
    .where('state', '=', 'open')
    .where('touchedAt', '<=', new Date(now.getTime() - idleMs))
    .limit(1000)
    .$castTo<UploadRow>()
    .execute()
}

/** Of these ids, those of sessions that still need their files, in any tenant. */
export async function liveUploads(tx: Tx, ids: string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set()
  const rows = await tx
    .selectFrom('datasetUploads')
    .select('id')
    .where('id', 'in', ids)
    .where('state', 'in', ['open', 'assembling'])
    .execute()
  return new Set(rows.map((row) => row.id))
}

/** Sessions under way of every dataset of a tenant, or of one. */
export async function liveUploadsOf(tx: Tx, tenantId: string, datasetId: string) {
  return tx
    .selectFrom('datasetUploads')
    .select(['id', 'runId', 'state'])
    .where('tenantId', '=', tenantId)
    .where('datasetId', '=', datasetId)
    .where('state', 'in', ['open', 'assembling'])
    .execute()
}
