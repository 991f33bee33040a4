import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { likePattern } from '../../platform/http/lists.ts'
import { newId } from '../../platform/ids.ts'
import { sharedNamespace } from './repository-names.ts'

/** Of `repository.tenantId` null: the reserved namespace. */
export async function findRepository(tx: Tx, name: string) {
  return tx
    .selectFrom('registryRepositories')
    .select(['id', 'tenantId', 'name', 'pushedAt'])
    .where('name', '=', name)
    .executeTakeFirst()
}

export type RepositoryRow = NonNullable<Awaited<ReturnType<typeof findRepository>>>

/** Makes the repository when it is not there yet. */
export async function ensureRepository(tx: Tx, tenantId: string | null, name: string): Promise<RepositoryRow> {
  const found = await findRepository(tx, name)
  if (found) return found
  await tx
    .insertInto('registryRepositories')
    .values({ id: newId(), tenantId, name })
    .onConflict((oc) => oc.column('name').doNothing())
    .execute()
  return (await findRepository(tx, name))!
}

/**
 * Takes the repository for this transaction alone, before something is deleted from it: pushes, holds and other
 * deletions wait. Undefined when there is none of that name.
 */
export async function lockRepository(tx: Tx, name: string): Promise<RepositoryRow | undefined> {
  return tx
    .selectFrom('registryRepositories')
    .select(['id', 'tenantId', 'name', 'pushedAt'])
    .where('name', '=', name)
    .forUpdate()
    .executeTakeFirst()
}

/** Keeps everything in the repository from being deleted until the transaction ends. */
export async function guardRepository(tx: Tx, name: string): Promise<RepositoryRow | undefined> {
  return tx
    .selectFrom('registryRepositories')
    .select(['id', 'tenantId', 'name', 'pushedAt'])
    .where('name', '=', name)
    .forShare()
    .executeTakeFirst()
}

/**
 * The repository for a manifest that comes, made when it is not there yet, and taken for this transaction before anything
 * in it: what deletes takes the repository first too, so the two never wait for each other in a ring.
 */
export async function repositoryForPush(tx: Tx, tenantId: string | null, name: string): Promise<RepositoryRow> {
  const pushed = tx
    .updateTable('registryRepositories')
    .set({ updatedAt: sql`now()`, pushedAt: sql`coalesce(pushed_at, now())` })
    .where('name', '=', name)
    .returning(['id', 'tenantId', 'name', 'pushedAt'])
  const found = await pushed.executeTakeFirst()
  if (found) return found
  await ensureRepository(tx, tenantId, name)
  return pushed.executeTakeFirstOrThrow()
}

/** Deletes the repository with everything in it but the bytes, which the sweep takes. */
export async function deleteRepository(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('registryRepositories').where('id', '=', id).execute()
}

/** Names from `after` (exclusive) on, in the order of bytes. @source contract B9.13 */
export async function listRepositoryNames(tx: Tx, tenantId: string, after: string, limit: number): Promise<string[]> {
  const rows = await tx
    .selectFrom('registryRepositories')
    .select('name')
    .where('tenantId', '=', tenantId)
    .where('pushedAt', 'is not', null)
    .where('name', '>', after)
    .orderBy('name')
    .limit(limit)
    .execute()
  return rows.map((row) => row.name)
}

export const repositorySorts = { updated_at: 'time', name: 'text', tags: 'number', size: 'number' } as const

export interface RepositoryPage {
  q?: string | undefined
  key: string
  direction: 'asc' | 'desc'
  limit: number
  offset: number
}

/** A page of the tenant's repositories with number of tags and distinct bytes. @source contract B4.3 */
export async function listRepositories(tx: Tx, tenantId: string, page: RepositoryPage) {
  const order = { name: 'name', tags: 'tagCount', size: 'sizeBytes', updated_at: 'updatedAt' } as const
  let query = repositoriesOf(tx).where('r.tenantId', '=', tenantId)
  let count = tx
    .selectFrom('registryRepositories as r')
    .select((eb) => eb.fn.countAll<number>().as('total'))
    .where('r.tenantId', '=', tenantId)
    .where('r.pushedAt', 'is not', null)
  if (page.q?.trim()) {
    query = query.where('r.name', 'ilike', likePattern(page.q))
    count = count.where('r.name', 'ilike', likePattern(page.q))
  }
  const items = await query
    .orderBy(order[page.key as keyof typeof order], page.direction)
    .orderBy('r.id', page.direction)
    .limit(page.limit)
    .offset(page.offset)
    .execute()
  return { items, total: (await count.executeTakeFirstOrThrow()).total }
}

const repositoriesOf = (tx: Tx) =>
  tx
    .selectFrom('registryRepositories as r')
    .select(['r.id', 'r.name', 'r.createdAt', 'r.updatedAt', 'r.pullCount', 'r.lastPulledAt'])
    .select((eb) => [
      eb
        .selectFrom('registryTags as t')
        .whereRef('t.repositoryId', '=', 'r.id')
        .select((sub) => sub.fn.countAll<number>().as('n'))
        .$asScalar()
        .as('tagCount'),
      eb
        .selectFrom('registryManifests as m')
        .whereRef('m.repositoryId', '=', 'r.id')
        .select((sub) => sub.fn.countAll<number>().as('n'))
        .$asScalar()
        .as('manifestCount'),
      sql<number>`(select coalesce(sum(b.size), 0)::bigint from registry_blobs b where b.repository_id = r.id)
        + (select coalesce(sum(m.size), 0)::bigint from registry_manifests m where m.repository_id = r.id)`.as(
        'sizeBytes',
      ),
    ])
    .where('r.pushedAt', 'is not', null)

export type RepositoryItem = Awaited<ReturnType<typeof listRepositories>>['items'][number]

export async function getRepositoryItem(tx: Tx, id: string): Promise<RepositoryItem> {
  return repositoriesOf(tx).where('r.id', '=', id).executeTakeFirstOrThrow()
}

/** Bytes of the tenant as its quota counts them: each blob once, manifests, and uploads that are under way. */
export async function sumUsage(tx: Tx, tenantId: string): Promise<number> {
  const result = await sql<{ bytes: number }>`select registry_usage(${tenantId}) as bytes`.execute(tx)
  return result.rows[0]!.bytes
}

export interface TenantSummary {
  /** Code, or `shared` for the reserved namespace. */
  tenant: string
  repositories: number
  bytes: number
  pulls: number
  uploads: number
}

/** Needs a transaction of the system. */
export async function summariseTenants(tx: Tx): Promise<TenantSummary[]> {
  const result = await sql<TenantSummary>`
    with repositories as (
      select tenant_id, count(*) as n, sum(pull_count)::bigint as pulls from registry_repositories
      where pushed_at is not null group by 1),
    blobs as (
      select tenant_id, sum(size)::bigint as bytes from
        (select distinct on (tenant_id, digest) tenant_id, size from registry_blobs) b group by 1),
    manifests as (
      select tenant_id, sum(size)::bigint as bytes from
        (select distinct on (tenant_id, digest) tenant_id, size from registry_manifests) m group by 1),
    uploads as (select tenant_id, count(*) as n from registry_uploads group by 1)
    select coalesce(t.code, ${sharedNamespace}) as tenant, r.n as repositories, r.pulls,
      coalesce(b.bytes, 0) + coalesce(m.bytes, 0) as bytes, coalesce(u.n, 0) as uploads
    from repositories r
    left join tenants t on t.id = r.tenant_id
    left join blobs b on b.tenant_id is not distinct from r.tenant_id
    left join manifests m on m.tenant_id is not distinct from r.tenant_id
    left join uploads u on u.tenant_id is not distinct from r.tenant_id`.execute(tx)
  return result.rows
}

/** For the preview of a tenant's deletion. */
export async function countTenantContents(tx: Tx, tenantId: string): Promise<Record<string, number>> {
  const result = await sql<Record<string, number>>`
    select
      (select count(*) from registry_repositories where tenant_id = ${tenantId}) as repositories,
      (select count(*) from registry_tokens where tenant_id = ${tenantId}) as registry_tokens`.execute(tx)
  const { repositories, registryTokens } = result.rows[0]!
  return { repositories: repositories!, registry_tokens: registryTokens! }
}

/** Adds to the counters of pulls; `pulls` maps repository ids to numbers. */
export async function addPulls(tx: Tx, pulls: Map<string, number>): Promise<void> {
  await sql`
    update registry_repositories r set pull_count = r.pull_count + p.n, last_pulled_at = now()
    from unnest(${[...pulls.keys()]}::uuid[], ${[...pulls.values()]}::bigint[]) as p(id, n)
    where r.id = p.id`.execute(tx)
}

/** Whether the tenant may pull from a repository of the reserved namespace. */
export async function isSharedWith(tx: Tx, repositoryId: string, tenantId: string): Promise<boolean> {
  const row = await tx
    .selectFrom('registryShares')
    .select('tenantId')
    .where('repositoryId', '=', repositoryId)
    .where('tenantId', '=', tenantId)
    .executeTakeFirst()
  return row !== undefined
}

/** Replaces the tenants that may pull from a repository of the reserved namespace. */
export async function replaceShares(tx: Tx, repositoryId: string, tenantIds: string[]): Promise<void> {
  await tx.deleteFrom('registryShares').where('repositoryId', '=', repositoryId).execute()
  if (tenantIds.length === 0) return
  await tx
    .insertInto('registryShares')
    .values(tenantIds.map((tenantId) => ({ repositoryId, tenantId })))
    .execute()
}
