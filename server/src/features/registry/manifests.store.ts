import { sql } from 'kysely'
import type { Database } from '../../platform/db/database.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import type { Manifest } from './oci/oci-manifests.ts'
import type { RepositoryRow } from './repositories.store.ts'

export interface StoredManifest {
  digest: string
  contentDigest: string
  mediaType: string
  size: number
}

/** Writes a manifest and what it refers to. Once there it never changes: its digest says what it is. */
export async function insertManifest(
  tx: Tx,
  repository: RepositoryRow,
  manifest: Manifest & { contentDigest: string },
): Promise<void> {
  const keys = { repositoryId: repository.id, tenantId: repository.tenantId }
  const references = referencesOf(manifest)
  const inserted = await tx
    .insertInto('registryManifests')
    .values({
      ...keys,
      digest: manifest.digest,
      contentDigest: manifest.contentDigest,
      mediaType: manifest.mediaType,
      kind: manifest.kind,
      size: manifest.size,
      totalSize: manifest.size + references.reduce((sum, { size }) => sum + size, 0),
      subject: manifest.subject?.digest ?? null,
      artifactType: manifest.artifactType,
      annotations: JSON.stringify(manifest.annotations),
    })
    .onConflict((oc) => oc.columns(['repositoryId', 'digest']).doNothing())
    .executeTakeFirst()
  if (inserted.numInsertedOrUpdatedRows === 0n || references.length === 0) return
  await tx
    .insertInto('registryReferences')
    .values(references.map((reference) => ({ ...keys, manifestDigest: manifest.digest, ...reference })))
    .execute()
}

function referencesOf({ config, layers, children }: Manifest) {
  const of = (role: 'config' | 'layer' | 'manifest', list: { mediaType: string; digest: string; size: number }[]) =>
    list.map(({ mediaType, digest, size }, position) => ({ role, position, mediaType, digest, size }))
  return [...of('config', config ? [config] : []), ...of('layer', layers), ...of('manifest', children)]
}

const columns = ['m.digest', 'm.contentDigest', 'm.mediaType', 'm.size'] as const

export async function findManifest(tx: Tx, repositoryId: string, digest: string): Promise<StoredManifest | undefined> {
  return tx
    .selectFrom('registryManifests as m')
    .select(columns)
    .where('m.repositoryId', '=', repositoryId)
    .where('m.digest', '=', digest)
    .executeTakeFirst()
}

/** A manifest of the tenant's repository of that name, by tag or digest: what every pull begins with, in one statement. */
export async function pullManifest(
  db: Pick<Database, 'kysely'>,
  tenantId: string,
  name: string,
  reference: { tag: string } | { digest: string },
): Promise<PulledManifest | undefined> {
  const [tag, digest] = 'tag' in reference ? [reference.tag, null] : [null, reference.digest]
  const result = await sql<PulledManifest>`
    select * from registry_find_manifest(${tenantId}, ${name}, ${tag}, ${digest})`.execute(db.kysely)
  return result.rows[0]
}

export type PulledManifest = StoredManifest & { repositoryId: string }

/** The same within a transaction, for repositories of the reserved namespace. */
export async function findManifestByName(
  tx: Tx,
  name: string,
  reference: { tag: string } | { digest: string },
): Promise<PulledManifest | undefined> {
  const manifests = tx
    .selectFrom('registryRepositories as r')
    .innerJoin('registryManifests as m', 'm.repositoryId', 'r.id')
    .select(columns)
    .select('r.id as repositoryId')
    .where('r.name', '=', name)
  if ('digest' in reference) return manifests.where('m.digest', '=', reference.digest).executeTakeFirst()
  return manifests
    .innerJoin('registryTags as t', (join) =>
      join.onRef('t.repositoryId', '=', 'm.repositoryId').onRef('t.digest', '=', 'm.digest'),
    )
    .where('t.name', '=', reference.tag)
    .executeTakeFirst()
}

/** A manifest of that digest in any of the tenant's repositories. */
export async function findManifestInTenant(
  tx: Tx,
  tenantId: string,
  digest: string,
): Promise<PulledManifest | undefined> {
  return tx
    .selectFrom('registryManifests as m')
    .select(columns)
    .select('m.repositoryId')
    .where('m.tenantId', '=', tenantId)
    .where('m.digest', '=', digest)
    .limit(1)
    .executeTakeFirst()
}

/** False when the repository had no such manifest. Its tags go with it. */
export async function deleteManifest(tx: Tx, repositoryId: string, digest: string): Promise<boolean> {
  const result = await tx
    .deleteFrom('registryManifests')
    .where('repositoryId', '=', repositoryId)
    .where('digest', '=', digest)
    .executeTakeFirst()
  return result.numDeletedRows > 0n
}

/** A manifest by tag or digest with all that is known of it. */
export async function findManifestDetails(tx: Tx, repositoryId: string, reference: string) {
  const details = tx
    .selectFrom('registryManifests as m')
    .select(columns)
    .select(['m.kind', 'm.totalSize', 'm.subject', 'm.artifactType', 'm.annotations', 'm.createdAt'])
    .where('m.repositoryId', '=', repositoryId)
  if (reference.includes(':')) return details.where('m.digest', '=', reference).executeTakeFirst()
  return details
    .innerJoin('registryTags as t', (join) =>
      join.onRef('t.repositoryId', '=', 'm.repositoryId').onRef('t.digest', '=', 'm.digest'),
    )
    .where('t.name', '=', reference)
    .executeTakeFirst()
}

export type ManifestDetails = NonNullable<Awaited<ReturnType<typeof findManifestDetails>>>

/** What a manifest needs, in its own order; `contentDigest` is null where the repository lacks the blob. */
export async function listReferences(tx: Tx, repositoryId: string, manifestDigest: string) {
  return tx
    .selectFrom('registryReferences as r')
    .leftJoin('registryBlobs as b', (join) =>
      join.onRef('b.repositoryId', '=', 'r.repositoryId').onRef('b.digest', '=', 'r.digest'),
    )
    .select(['r.role', 'r.digest', 'r.mediaType', 'r.size', 'b.contentDigest'])
    .where('r.repositoryId', '=', repositoryId)
    .where('r.manifestDigest', '=', manifestDigest)
    .orderBy('r.role')
    .orderBy('r.position')
    .execute()
}

export type ReferenceRow = Awaited<ReturnType<typeof listReferences>>[number]

export async function listReferrers(tx: Tx, name: string, subject: string, artifactType: string | null) {
  let query = tx
    .selectFrom('registryRepositories as r')
    .innerJoin('registryManifests as m', 'm.repositoryId', 'r.id')
    .select(columns)
    .select(['m.artifactType', 'm.annotations'])
    .where('r.name', '=', name)
    .where('m.subject', '=', subject)
  if (artifactType !== null) query = query.where(sql`coalesce(m.artifact_type, '')`, '=', artifactType)
  return query.orderBy('m.createdAt').orderBy('m.digest').execute()
}
