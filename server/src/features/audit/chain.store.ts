import { type RawBuilder, sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

/** Longer values are in no index, and so not counted. */
export const countedBytesMax = 2000

/** One at a time seals; a second one waits for the first to commit. */
const sealLock = 7_000_011

export interface Link {
  seq: number
  contentHash: Buffer
  hash: Buffer
  erased: boolean
}

/** Takes the right to seal until the transaction ends, and says where the chain ends. */
export async function lockHead(tx: Tx): Promise<{ seq: number; hash: Buffer | null }> {
  await sql`select pg_advisory_xact_lock(${sealLock})`.execute(tx)
  return findHead(tx)
}

export async function findHead(tx: Tx): Promise<{ seq: number; hash: Buffer | null }> {
  const { rows } = await sql<{ seq: number; hash: Buffer }>`
    (select seq, hash from audit_events where seq is not null order by seq desc limit 1)
    union all (select seq, hash from audit_erasures order by seq desc limit 1)
    order by seq desc limit 1`.execute(tx)
  return rows[0] ?? { seq: 0, hash: null }
}

/** Committed entries without a place in the chain, oldest first, from a moment on. */
export async function listUnsealed(
  tx: Tx,
  from: Date,
  limit: number,
): Promise<{ id: string; at: Date; contentHash: Buffer }[]> {
  const { rows } = await sql<{ id: string; at: Date; contentHash: Buffer }>`
    select e.id, e.at, audit_content_hash(e) as content_hash from audit_events e
    where e.seq is null and e.at >= ${from} order by e.at, e.id limit ${limit}`.execute(tx)
  return rows
}

/** Gives entries their place, and adds them to the counts. */
export async function sealRows(tx: Tx, links: { id: string; seq: number; hash: Buffer }[]): Promise<void> {
  await sql`
    with sealed as (
      update audit_events e set seq = l.seq, hash = l.hash
      from unnest(${links.map((link) => link.id)}::uuid[], ${links.map((link) => link.seq)}::bigint[],
        ${links.map((link) => link.hash)}::bytea[]) as l (id, seq, hash)
      where e.id = l.id returning e.tenant_id, e.action, e.actor_email, e.target)
    insert into audit_counts as c (tenant_id, facet, value, entries) ${countedOf(sql`sealed`)}
    on conflict (tenant_id, facet, value) do update set entries = c.entries + excluded.entries`.execute(tx)
}

/** How many of these entries each action, actor and target has. What is too long for an index is not counted. */
const countedOf = (entries: RawBuilder<unknown>) => sql`
  select tenant_id, facet, value, count(*) as entries from ${entries}
  cross join lateral (values ('action', action), ('actor', actor_email), ('target', target)) as f (facet, value)
  where octet_length(value) <= ${sql.lit(countedBytesMax)}
  group by tenant_id, facet, value order by tenant_id, facet, value`

/** Links of the chain behind a place, in order; erased entries are there with what is left of them. */
export async function listLinks(tx: Tx, afterSeq: number, limit: number): Promise<Link[]> {
  const { rows } = await sql<Link>`
    select * from (
      (select e.seq, audit_content_hash(e) as content_hash, e.hash, false as erased
       from audit_events e where e.seq > ${afterSeq} order by e.seq limit ${limit})
      union all
      (select seq, content_hash, hash, true from audit_erasures where seq > ${afterSeq} order by seq limit ${limit})
    ) links order by seq limit ${limit}`.execute(tx)
  return rows
}

export async function countUnsealed(tx: Tx): Promise<number> {
  const { rows } = await sql<{ count: number }>`select count(*) from audit_events where seq is null`.execute(tx)
  return rows[0]!.count
}

export type ErasureReason = 'retention' | 'tenant_deletion'

export interface ErasureScope {
  /** Null: entries of the system. */
  tenantId: string | null
  /** Only older ones. */
  before?: Date
}

/** Removes at most so many sealed entries, leaves their links, and says how many there were. */
export async function eraseSealed(tx: Tx, scope: ErasureScope, reason: ErasureReason, limit: number): Promise<number> {
  // Sealing changes the same counts.
  await sql`select pg_advisory_xact_lock(${sealLock})`.execute(tx)
  const ofTenant = scope.tenantId ? sql`tenant_id = ${scope.tenantId}` : sql`tenant_id is null`
  const older = scope.before ? sql`at < ${scope.before}` : sql`true`
  const { rows } = await sql<{ count: number }>`
    with gone as (
      delete from audit_events e where e.id in (
        select id from audit_events where ${ofTenant} and ${older} and seq is not null order by at, id limit ${limit})
      returning e.seq, audit_content_hash(e) as content_hash, e.hash, e.tenant_id, e.action, e.actor_email, e.target),
    links as (
      insert into audit_erasures (seq, content_hash, hash, reason)
      select seq, content_hash, hash, ${reason} from gone),
    counted as (
      update audit_counts c set entries = c.entries - g.entries
      from (${countedOf(sql`gone`)}) g
      where ${scope.tenantId ? sql`c.tenant_id = g.tenant_id` : sql`c.tenant_id is null`}
        and c.facet = g.facet and c.value = g.value)
    select count(*) from gone`.execute(tx)
  return rows[0]!.count
}

/** Forgets actions, actors and targets of which no entry is left. */
export async function dropEmptyCounts(tx: Tx): Promise<void> {
  await tx.deleteFrom('auditCounts').where('entries', '=', 0).execute()
}

export async function dropCountsOf(tx: Tx, tenantId: string): Promise<void> {
  await tx.deleteFrom('auditCounts').where('tenantId', '=', tenantId).execute()
}

/** Drops the links before the oldest entry there is; the last of them stays as the anchor of the chain. */
export async function dropOldLinks(tx: Tx): Promise<void> {
  await sql`delete from audit_erasures where seq < (select min(seq) from audit_events where seq is not null) - 1`.execute(
    tx,
  )
}

export async function countTenantRows(tx: Tx, tenantId: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) from audit_events where tenant_id = ${tenantId}`.execute(tx)
  return rows[0]!.count
}
