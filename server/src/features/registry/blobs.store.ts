import { sql } from 'kysely'
import type { Database } from '../../platform/db/database.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import type { RepositoryRow } from './repositories.store.ts'

export interface BlobLink {
  /** The name clients use, by SHA-256 or SHA-512. */
  digest: string
  /** SHA-256, the name in the blob store. */
  contentDigest: string
  /** Length in bytes. */
  size: number
}

/** Links blobs into the repository, or touches the links that are there. */
export async function linkBlobs(tx: Tx, repository: RepositoryRow, blobs: BlobLink[]): Promise<void> {
  const unique = [...new Map(blobs.map((blob) => [blob.digest, blob])).values()].sort((a, b) =>
    a.digest < b.digest ? -1 : 1,
  )
  if (unique.length === 0) return
  await tx
    .insertInto('registryBlobs')
    .values(unique.map((blob) => ({ ...blob, repositoryId: repository.id, tenantId: repository.tenantId })))
    .onConflict((oc) => oc.columns(['repositoryId', 'digest']).doUpdateSet({ touchedAt: sql`now()` }))
    .execute()
}

/** A blob of the repository of that name. */
export async function findBlobByName(tx: Tx, name: string, digest: string): Promise<LinkedBlob | undefined> {
  return tx
    .selectFrom('registryRepositories as r')
    .innerJoin('registryBlobs as b', 'b.repositoryId', 'r.id')
    .select(['b.repositoryId', 'b.digest', 'b.contentDigest', 'b.size', 'b.touchedAt'])
    .where('r.name', '=', name)
    .where('b.digest', '=', digest)
    .executeTakeFirst()
}

export interface LinkedBlob extends BlobLink {
  repositoryId: string
  touchedAt: Date
}

/** The same outside of a transaction and in one round trip, for repositories of the tenant. */
export async function findTenantBlob(
  db: Pick<Database, 'kysely'>,
  tenantId: string,
  name: string,
  digest: string,
): Promise<LinkedBlob | undefined> {
  const result = await sql<LinkedBlob>`
    select * from registry_find_blob(${tenantId}, ${name}, ${digest})`.execute(db.kysely)
  return result.rows[0]
}

/** A link to the blob in any of the tenant's repositories. */
export async function findBlobInTenant(tx: Tx, tenantId: string, digest: string): Promise<BlobLink | undefined> {
  return tx
    .selectFrom('registryBlobs')
    .select(['digest', 'contentDigest', 'size'])
    .where('tenantId', '=', tenantId)
    .where('digest', '=', digest)
    .limit(1)
    .executeTakeFirst()
}

/**
 * Marks blobs as relied on by a push that is under way, and returns the digests that are there. A sweep that meets
 * the mark leaves them alone, and one that came first makes them missing here.
 */
export async function touchBlobs(tx: Tx, repositoryId: string, digests: string[]): Promise<Set<string>> {
  if (digests.length === 0) return new Set()
  const rows = await tx
    // Locked in one order, or two pushes of the same layers would wait for each other.
    .with('locked', (qb) =>
      qb
        .selectFrom('registryBlobs')
        .select('digest')
        .where('repositoryId', '=', repositoryId)
        .where('digest', 'in', digests)
        .orderBy('digest')
        .forUpdate(),
    )
    .updateTable('registryBlobs')
    .from('locked')
    .set({ touchedAt: sql`now()` })
    .where('registryBlobs.repositoryId', '=', repositoryId)
    .whereRef('registryBlobs.digest', '=', 'locked.digest')
    .returning('registryBlobs.digest')
    .execute()
  return new Set(rows.map((row) => row.digest))
}

/** False when the repository had no such blob. */
export async function unlinkBlob(tx: Tx, repositoryId: string, digest: string): Promise<boolean> {
  const result = await tx
    .deleteFrom('registryBlobs')
    .where('repositoryId', '=', repositoryId)
    .where('digest', '=', digest)
    .executeTakeFirst()
  return result.numDeletedRows > 0n
}
