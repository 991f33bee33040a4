import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

export interface SweepScope {
  /** Null for all tenants and the reserved namespace. */
  tenantId: string | null
  /** Only what no push relied on since. */
  before: Date
}

export interface Swept {
  blobs: number
  bytes: number
}

/** Blobs that no manifest of their repository names. */
const unreferenced = ({ tenantId, before }: SweepScope) => sql`
  b.touched_at < ${before}
    and (${tenantId}::uuid is null or b.tenant_id = ${tenantId}::uuid)
    and not exists (
      select from registry_references r where r.repository_id = b.repository_id and r.digest = b.digest)`

export async function countUnreferencedBlobs(tx: Tx, scope: SweepScope): Promise<Swept> {
  const result = await sql<Swept>`
    select count(*) as blobs, coalesce(sum(b.size), 0)::bigint as bytes
    from registry_blobs b where ${unreferenced(scope)}`.execute(tx)
  return result.rows[0]!
}

/**
 * Unlinks them, at most `limit` at once. A push that touches a blob meanwhile makes this statement look again at the
 * row, which then is too young; one that comes later finds the blob missing and sends it again.
 */
export async function unlinkUnreferencedBlobs(tx: Tx, scope: SweepScope, limit: number): Promise<Swept> {
  const result = await sql<Swept>`
    with doomed as (
      select b.ctid from registry_blobs b where ${unreferenced(scope)} limit ${limit}),
    gone as (
      delete from registry_blobs b using doomed d
      where b.ctid = d.ctid and ${unreferenced(scope)} returning b.size)
    select count(*) as blobs, coalesce(sum(size), 0)::bigint as bytes from gone`.execute(tx)
  return result.rows[0]!
}

/** Of these contents, those that a blob or manifest of any repository is made of. */
export async function heldContents(tx: Tx, digests: string[]): Promise<string[]> {
  const result = await sql<{ digest: string }>`
    select d.digest from unnest(${digests}::text[]) d (digest)
    where exists (select from registry_blobs b where b.content_digest = d.digest)
      or exists (select from registry_manifests m where m.content_digest = d.digest)`.execute(tx)
  return result.rows.map((row) => row.digest)
}

/** Ends uploads that nobody touched since `before`; returns their ids. */
export async function expireUploads(tx: Tx, before: Date): Promise<string[]> {
  const rows = await tx.deleteFrom('registryUploads').where('touchedAt', '<', before).returning('id').execute()
  return rows.map((row) => row.id)
}

/** Of these ids, those of uploads that go on. */
export async function liveUploadsAmong(tx: Tx, ids: string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set()
  const rows = await tx.selectFrom('registryUploads').select('id').where('id', 'in', ids).execute()
  return new Set(rows.map((row) => row.id))
}

/** Places where uploads began and nothing came of it. */
export async function deleteEmptyRepositories(tx: Tx, before: Date): Promise<void> {
  await sql`
    delete from registry_repositories r
    where r.pushed_at is null and r.updated_at < ${before}
      and not exists (select from registry_blobs b where b.repository_id = r.id)
      and not exists (select from registry_uploads u where u.repository_id = r.id)`.execute(tx)
}
