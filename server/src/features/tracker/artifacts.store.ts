import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

export interface ArtifactFile {
  /** Path below the tenant's artifact root, without a slash at either end. */
  path: string
  digest: string
  /** In bytes. */
  size: number
}

export async function upsertArtifacts(tx: Tx, tenantId: string, files: ArtifactFile[]): Promise<void> {
  if (files.length === 0) return
  await sql`
    insert into tracker_artifacts (tenant_id, path, digest, size)
    select ${tenantId}::uuid, path, digest, size
    from unnest(${files.map((file) => file.path)}::text[], ${files.map((file) => file.digest)}::text[],
      ${files.map((file) => file.size)}::bigint[]) as f(path, digest, size) order by path
    on conflict (tenant_id, path) do update
      set digest = excluded.digest, size = excluded.size, created_at = now()`.execute(tx)
}

export async function findArtifact(tx: Tx, tenantId: string, path: string): Promise<ArtifactFile | null> {
  const row = await tx
    .selectFrom('trackerArtifacts')
    .select(['path', 'digest', 'size'])
    .where('tenantId', '=', tenantId)
    .where('path', '=', path)
    .executeTakeFirst()
  return row ?? null
}

/** Every file below a folder. The empty folder is the root. */
export async function findArtifactsBelow(tx: Tx, tenantId: string, folder: string): Promise<ArtifactFile[]> {
  let query = tx.selectFrom('trackerArtifacts').select(['path', 'digest', 'size']).where('tenantId', '=', tenantId)
  // "0" is the character after the slash: the range is exactly what begins with "folder/".
  if (folder) query = query.where('path', '>=', `${folder}/`).where('path', '<', `${folder}0`)
  return query.orderBy('path').execute()
}

/** Removes a file, or everything below a folder; gives the number of files. */
export async function deleteArtifacts(tx: Tx, tenantId: string, path: string): Promise<number> {
  const result = await tx
    .deleteFrom('trackerArtifacts')
    .where('tenantId', '=', tenantId)
    .where((eb) => eb.or([eb('path', '=', path), eb.and([eb('path', '>=', `${path}/`), eb('path', '<', `${path}0`)])]))
    .executeTakeFirst()
  return Number(result.numDeletedRows)
}

/** What lies directly in a folder. */
export interface FolderEntry {
  name: string
  isFolder: boolean
  /** Of a file, in bytes. */
  size: number | null
}

/** The entries of a folder in the order of their names. */
export async function listFolder(tx: Tx, tenantId: string, folder: string): Promise<FolderEntry[]> {
  const start = folder === '' ? 0 : folder.length + 1
  const below = folder === '' ? sql`true` : sql`path >= ${`${folder}/`} and path < ${`${folder}0`}`
  const result = await sql<FolderEntry>`
    select split_part(rest, '/', 1) as name, bool_or(rest like '%/%') as is_folder,
      max(size) filter (where rest not like '%/%') as size
    from (
      select substr(path, ${start + 1}) as rest, size from tracker_artifacts
      where tenant_id = ${tenantId} and ${below}
    ) file
    group by 1 order by 1`.execute(tx)
  return result.rows
}
