import { sql } from 'kysely'
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

/** Names from `after` (exclusive) on, in the order of bytes; all of them when `limit` is null. @source contract B9.13 */
export async function listTagNames(
  tx: Tx,
  repositoryId: string,
  after: string,
  limit: number | null,
): Promise<string[]> {
  let query = tx
    .selectFrom('registryTags')
    .select('name')
    .where('repositoryId', '=', repositoryId)
    .where('name', '>', after)
    .orderBy('name')
  if (limit !== null) query = query.limit(limit)
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
