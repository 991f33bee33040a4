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
