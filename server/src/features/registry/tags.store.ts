import { sql } from 'kysely'
import type { Database } from '../../platform/db/database.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import type { RepositoryRow } from './repositories.store.ts'

/** Points the tag at the manifest, wherever it pointed before. */
export async function setTag(tx: Tx, repository: RepositoryRow, name: string, digest: string): Promise<void> {
  await tx
    .insertInto('registryTags')
    .values({ repositoryId: repository.id, tenantId: repository.tenantId, name, digest })
    .onConflict((oc) => oc.columns(['repositoryId', 'name']).doUpdateSet({ digest, updatedAt: sql`now()` }))
    .execute()
}

/** Digest the tag points at, for as long as the transaction lasts; null when there is no such tag. */
export async function lockTag(tx: Tx, repositoryId: string, name: string): Promise<string | null> {
  const row = await tx
    .selectFrom('registryTags')
    .select('digest')
    .where('repositoryId', '=', repositoryId)
    .where('name', '=', name)
    .forUpdate()
    .executeTakeFirst()
  return row?.digest ?? null
}

export async function deleteTag(tx: Tx, repositoryId: string, name: string): Promise<void> {
  await tx.deleteFrom('registryTags').where('repositoryId', '=', repositoryId).where('name', '=', name).execute()
}

/**
 * Names from `after` (exclusive) on, in the order of bytes, in one statement; all of them when `limit` is null.
 * Null when the tenant has no such repository. @source contract B9.13
 */
export async function listTagNames(
  db: Pick<Database, 'kysely'>,
  tenantId: string,
  name: string,
  page: { after: string; limit: number | null },
): Promise<string[] | null> {
  const result = await sql<{ names: string[] | null }>`
    select registry_list_tags(${tenantId}, ${name}, ${page.after}, ${page.limit}) as names`.execute(db.kysely)
  return result.rows[0]!.names
}

/** The same within a transaction, for repositories of the reserved namespace. */
export async function listTagNamesOf(
  tx: Tx,
  repositoryId: string,
  page: { after: string; limit: number | null },
): Promise<string[]> {
  let query = tx
    .selectFrom('registryTags')
    .select('name')
    .where('repositoryId', '=', repositoryId)
    .where('name', '>', page.after)
    .orderBy('name')
  if (page.limit !== null) query = query.limit(page.limit)
  return (await query.execute()).map((row) => row.name)
}

/** A page of tags with their manifests, the newest first. */
export async function listTags(tx: Tx, repositoryId: string, { limit, offset }: { limit: number; offset: number }) {
  const items = await tx
    .selectFrom('registryTags as t')
    .innerJoin('registryManifests as m', (join) =>
      join.onRef('m.repositoryId', '=', 't.repositoryId').onRef('m.digest', '=', 't.digest'),
    )
    .select(['t.name', 't.digest', 't.updatedAt', 'm.mediaType', 'm.kind', 'm.totalSize', 'm.createdAt'])
    .where('t.repositoryId', '=', repositoryId)
    .orderBy('t.updatedAt', 'desc')
    .orderBy('t.name')
    .limit(limit)
    .offset(offset)
    .execute()
  const { total } = await tx
    .selectFrom('registryTags')
    .select((eb) => eb.fn.countAll<number>().as('total'))
    .where('repositoryId', '=', repositoryId)
    .executeTakeFirstOrThrow()
  return { items, total }
}

export type TagItem = Awaited<ReturnType<typeof listTags>>['items'][number]

export async function tagsOfManifest(tx: Tx, repositoryId: string, digest: string): Promise<string[]> {
  const rows = await tx
    .selectFrom('registryTags')
    .select('name')
    .where('repositoryId', '=', repositoryId)
    .where('digest', '=', digest)
    .orderBy('name')
    .execute()
  return rows.map((row) => row.name)
}
