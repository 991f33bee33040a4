import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'
import { type FileOrigin, type NewFile, replacing } from './dataset-files.store.ts'
import type { DatasetState } from './datasets.states.ts'

/** The sync that changes the dataset now, or null. */
export async function findSyncOf(tx: Tx, tenantId: string, id: string): Promise<string | null> {
  const row = await tx
    .selectFrom('datasets')
    .select('syncRunId')
    .where('tenantId', '=', tenantId)
    .where('id', '=', id)
    .executeTakeFirst()
  return row?.syncRunId ?? null
}

export interface LinkedDataset {
  id: string
  name: string
  state: DatasetState
}

/** Datasets that follow a source, newest first. */
export async function listLinked(tx: Tx, tenantId: string, sourceId: string, limit: number): Promise<LinkedDataset[]> {
  return tx
    .selectFrom('datasets')
    .select(['id', 'name', 'state'])
    .where('tenantId', '=', tenantId)
    .where('externalSourceId', '=', sourceId)
    .orderBy('createdAt', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .$castTo<LinkedDataset>()
    .execute()
}

export interface PresentFile {
  path: string
  digest: string
  size: number
  origin: FileOrigin
}

/** Of these paths, those that the dataset has. */
export async function listPresent(tx: Tx, tenantId: string, id: string, paths: string[]): Promise<PresentFile[]> {
  const { rows } = await sql<PresentFile>`
    select path, digest, size, origin from dataset_files
    where tenant_id = ${tenantId} and dataset_id = ${id} and path = any(${paths}::text[])`.execute(tx)
  return rows
}

/** Paths of files that came by syncs, in byte order. */
export async function listSyncedPaths(
  tx: Tx,
  tenantId: string,
  id: string,
  after: string,
  limit: number,
): Promise<string[]> {
  const rows = await tx
    .selectFrom('datasetFiles')
    .select('path')
    .where('tenantId', '=', tenantId)
    .where('datasetId', '=', id)
    .where('origin', '=', 'sync')
    .where('path', '>', after)
    .orderBy('path')
    .limit(limit)
    .execute()
  return rows.map(({ path }) => path)
}

/** Makes paths hold these contents, as `putFile` does for one. */
export async function putSynced(tx: Tx, tenantId: string, id: string, files: NewFile[]): Promise<void> {
  const column = (key: 'path' | 'digest' | 'size' | 'mediaType' | 'kind') => files.map((file) => file[key])
  await sql`
    insert into dataset_files as f (tenant_id, dataset_id, origin, id, path, digest, size, media_type, kind)
    select ${tenantId}, ${id}, 'sync', n.* from unnest(${files.map(() => newId())}::uuid[], ${column('path')}::text[],
      ${column('digest')}::text[], ${column('size')}::bigint[], ${column('mediaType')}::text[],
      ${column('kind')}::text[]) as n
    ${replacing}`.execute(tx)
}

export async function deleteSynced(tx: Tx, tenantId: string, id: string, paths: string[]): Promise<void> {
  await sql`
    delete from dataset_files where tenant_id = ${tenantId} and dataset_id = ${id} and origin = 'sync'
      and path = any(${paths}::text[])`.execute(tx)
}
