import { type SqlBool, sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { type ListQuery, likePattern } from '../../platform/http/lists.ts'
import { newId } from '../../platform/ids.ts'
import type { FileKind } from './file-kinds.ts'
import type { Inspection } from './image-inspection.ts'
import { pageWindow } from './page-window.ts'
import type { Split } from './splits.ts'

export const fileStatuses = ['PENDING', 'VALID', 'INVALID', 'DUPLICATE'] as const
export type FileStatus = (typeof fileStatuses)[number]
export const fileOrigins = ['upload', 'sync'] as const
export type FileOrigin = (typeof fileOrigins)[number]

interface TypedColumns {
  kind: FileKind
  origin: FileOrigin
  status: FileStatus
  split: Split | null
}

export async function findFile(tx: Tx, tenantId: string, datasetId: string, id: string) {
  return tx
    .selectFrom('datasetFiles')
    .selectAll()
    .$narrowType<TypedColumns>()
    .where('tenantId', '=', tenantId)
    .where('datasetId', '=', datasetId)
    .where('id', '=', id)
    .executeTakeFirst()
}

export type FileRow = NonNullable<Awaited<ReturnType<typeof findFile>>>

export interface NewFile {
  path: string
  digest: string
  size: number
  mediaType: string
  kind: FileKind
  /** Null when it is to be looked into later. */
  inspection?: Inspection | null
}

/**
 * Makes a path hold that content: other content is replaced under the same id, the same content is left alone.
 * `created` is false when the path was there with these very bytes.
 */
export async function putFile(
  tx: Tx,
  tenantId: string,
  datasetId: string,
  file: NewFile,
  origin: FileOrigin,
): Promise<{ file: FileRow; created: boolean }> {
  const { rows } = await sql`
    insert into dataset_files as f (tenant_id, dataset_id, id, path, digest, size, media_type, kind, origin)
    values (${tenantId}, ${datasetId}, ${newId()}, ${file.path}, ${file.digest}, ${file.size}, ${file.mediaType},
      ${file.kind}, ${origin})
    ${replacing} returning f.id`.execute(tx)
  const row = await tx
    .selectFrom('datasetFiles')
    .selectAll()
    .$narrowType<TypedColumns>()
    .where('tenantId', '=', tenantId)
    .where('datasetId', '=', datasetId)
    .where('path', '=', file.path)
    .executeTakeFirstOrThrow()
  return { file: row, created: rows.length > 0 }
}

/** What becomes of a path that is there already. */
export const replacing = sql`
  on conflict on constraint dataset_files_path do update set
    digest = excluded.digest, size = excluded.size, media_type = excluded.media_type, kind = excluded.kind,
    origin = excluded.origin, status = excluded.status, fault_code = excluded.fault_code, fault = excluded.fault,
    width = excluded.width, height = excluded.height, fingerprint = excluded.fingerprint, preview_digest = null, preview_size = null
  where f.digest <> excluded.digest`

/** An upload and the dataset it goes to. */
export interface Staged {
  tenantId: string
  datasetId: string
  uploadId: string
}

/** How many there are, and the first of them. */
interface Many {
  total: number
  first: string[]
}

/** Makes the staged members of a session files of its dataset, all at once. Gives the ids of new and replaced files. */
export async function registerMembers(tx: Tx, { tenantId, datasetId, uploadId }: Staged, limit: number): Promise<Many> {
  const { rows } = await sql<Many>`
    with put as (
      insert into dataset_files as f (tenant_id, dataset_id, id, path, digest, size, media_type, kind, origin, status,
        fault_code, fault, width, height, fingerprint)
      select ${tenantId}, ${datasetId}, file_id, path, digest, size, coalesce(inspection->>'mediaType', media_type),
        kind, 'upload', coalesce(inspection->>'status', 'PENDING'), inspection->>'faultCode', inspection->>'fault',
        (inspection->>'width')::int, (inspection->>'height')::int, inspection->>'fingerprint'
      from dataset_upload_members where tenant_id = ${tenantId} and upload_id = ${uploadId} order by path
      ${replacing} returning f.id
    )
    select (select count(*) from put) as total, array(select id::text from put limit ${limit}) as first`.execute(tx)
  return rows[0]!
}

/** Paths of staged members that hold these very bytes already, in their order. */
export async function membersPresent(tx: Tx, { tenantId, datasetId, uploadId }: Staged, limit: number): Promise<Many> {
  const { rows } = await sql<Many>`
    with present as (
      select m.path from dataset_upload_members m
      join dataset_files f on f.tenant_id = m.tenant_id and f.dataset_id = ${datasetId} and f.path = m.path
      where m.tenant_id = ${tenantId} and m.upload_id = ${uploadId} and f.digest = m.digest
    )
    select (select count(*) from present) as total,
      array(select path from present order by path limit ${Math.max(0, limit)}) as first`.execute(tx)
  return rows[0]!
}

export async function findByPaths(tx: Tx, tenantId: string, datasetId: string, paths: string[]) {
  return tx
    .selectFrom('datasetFiles')
    .select(['id', 'path', 'kind', 'digest', 'size', 'width', 'height', 'status'])
    .where('tenantId', '=', tenantId)
    .where('datasetId', '=', datasetId)
    .where(sql<SqlBool>`path = any(${paths}::text[])`)
    .execute()
}

export async function deleteFile(tx: Tx, tenantId: string, datasetId: string, id: string): Promise<void> {
  await tx
    .deleteFrom('datasetFiles')
    .where('tenantId', '=', tenantId)
    .where('datasetId', '=', datasetId)
    .where('id', '=', id)
    .execute()
}

export async function savePreview(tx: Tx, file: FileRow, preview: { digest: string; size: number }): Promise<void> {
  await tx
    .updateTable('datasetFiles')
    .set({ previewDigest: preview.digest, previewSize: preview.size })
    .where('tenantId', '=', file.tenantId)
    .where('datasetId', '=', file.datasetId)
    .where('id', '=', file.id)
    .where('digest', '=', file.digest)
    .execute()
}

export async function listObjects(tx: Tx, file: FileRow) {
  return tx
    .selectFrom('datasetObjects')
    .select(['class', 'shape', 'geometry'])
    .where('tenantId', '=', file.tenantId)
    .where('datasetId', '=', file.datasetId)
    .where('fileId', '=', file.id)
    .orderBy('ordinal')
    .execute()
}

export interface FileFilter extends ListQuery {
  status?: FileStatus
  kind?: FileKind
  origin?: FileOrigin
}

const orderColumns = { created_at: 'createdAt', name: 'path', size: 'size', kind: 'kind', status: 'status' } as const

/** One page of files; totals come from the counts kept beside, those of a search from `totals` where they are known. */
export async function listFiles(
  tx: Tx,
  { tenantId, datasetId }: { tenantId: string; datasetId: string },
  filter: FileFilter,
  order: { key: string; direction: 'asc' | 'desc' },
  totals: KnownTotals,
): Promise<{ items: FileRow[]; total: number }> {
  const q = filter.q?.trim()
  const found = q ? await searchFiles(tx, tenantId, datasetId, q) : null
  const query = filtered(tx, tenantId, datasetId, filter, found)
  const count = async () =>
    (await query.select(({ fn }) => fn.countAll<number>().as('total')).executeTakeFirstOrThrow()).total
  const total = found
    ? await count()
    : q
      ? await totals(filter, count)
      : await countFiles(tx, tenantId, datasetId, filter)
  const window = pageWindow(filter, order.direction, total)
  if (!window) return { items: [], total }
  const column = orderColumns[order.key as keyof typeof orderColumns]
  // The ids first, from the index alone; then only the rows of the page. Paths are unique and need no second key.
  const byColumn = query.select('id').orderBy(column, window.direction)
  const ordered = column === 'path' ? byColumn : byColumn.orderBy('id', window.direction)
  const items = await tx
    .selectFrom('datasetFiles')
    .selectAll()
    .$narrowType<TypedColumns>()
    .where('tenantId', '=', tenantId)
    .where('datasetId', '=', datasetId)
    .where('id', 'in', ordered.limit(window.limit).offset(window.offset))
    .orderBy(column, order.direction)
    .orderBy('id', order.direction)
    .execute()
  return { items, total }
}

/** Remembers the total of a filter, or counts it. */
export type KnownTotals = (filter: FileFilter, count: () => Promise<number>) => Promise<number>

/** Up to here a search hands over what it found; beyond, the list is read in its order until a page is full. */
const foundMax = 2000

/** The ids of all files that match, or null when there are many. */
async function searchFiles(tx: Tx, tenantId: string, datasetId: string, q: string): Promise<string[] | null> {
  const { rows } = await sql<{ id: string }>`
    select search_dataset_files(${tenantId}, ${datasetId}, ${likePattern(q)}, ${foundMax + 1}) as id`.execute(tx)
  return rows.length > foundMax ? null : rows.map(({ id }) => id)
}

function filtered(tx: Tx, tenantId: string, datasetId: string, filter: FileFilter, found: string[] | null) {
  let query = tx.selectFrom('datasetFiles').where('tenantId', '=', tenantId).where('datasetId', '=', datasetId)
  if (filter.status) query = query.where('status', '=', filter.status)
  if (filter.kind) query = query.where('kind', '=', filter.kind)
  if (filter.origin) query = query.where('origin', '=', filter.origin)
  const q = filter.q?.trim()
  if (found) return query.where(sql<SqlBool>`id = any(${found}::uuid[])`)
  return q ? query.where(sql<SqlBool>`(path ilike ${likePattern(q)} or label ilike ${likePattern(q)})`) : query
}

async function countFiles(tx: Tx, tenantId: string, datasetId: string, filter: FileFilter): Promise<number> {
  let query = tx
    .selectFrom('datasetFileCounts')
    .select(sql<number>`coalesce(sum(files), 0)::bigint`.as('total'))
    .where('tenantId', '=', tenantId)
    .where('datasetId', '=', datasetId)
  if (filter.status) query = query.where('status', '=', filter.status)
  if (filter.kind) query = query.where('kind', '=', filter.kind)
  if (filter.origin) query = query.where('origin', '=', filter.origin)
  return (await query.executeTakeFirstOrThrow()).total
}

export const listSampleFiles = (tx: Tx, tenantId: string, datasetId: string, kind: FileKind, limit: number) =>
  tx
    .selectFrom('datasetFiles')
    .select(['id', 'path', 'digest', 'size', 'label', 'split', 'width', 'height'])
    .where('tenantId', '=', tenantId)
    .where('datasetId', '=', datasetId)
    .where('kind', '=', kind)
    .orderBy('path')
    .limit(limit)
    .execute()
