import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { likePattern } from '../../platform/http/lists.ts'
import {
  type AuditFilter,
  type AuditRow,
  auditColumns,
  auditEntries,
  countByAction,
  countEntries,
  listInOrder,
} from './audit.store.ts'
import { countedBytesMax } from './chain.store.ts'

/** Up to so many values a search goes from the values to their entries; beyond, the list is read until a page is full. */
const foundMax = 2000

type Facet = 'actor' | 'target'

const columnOf = { actor: sql.ref('e.actor_email'), target: sql.ref('e.target') }

/** The actors or targets that a search means, by tenant (null: of the system). */
interface Found {
  facet: Facet
  values: { tenantId: string | null; value: string }[]
  /** How many sealed entries they have. */
  entries: number
}

interface Page {
  page: number
  page_size: number
}

/** One page of the entries, newest first. @source ADR 0020 */
export async function listAudit(
  tx: Tx,
  filter: AuditFilter,
  { page, page_size }: Page,
): Promise<{ items: AuditRow[]; total: number }> {
  const offset = (page - 1) * page_size
  const { actor, target, ...others } = filter
  if (!actor && !target) {
    const counted = others.since || others.until ? countEntries : countByAction
    return { items: await listInOrder(tx, others, page_size, offset), total: await counted(tx, others) }
  }
  const found = await findFewest(tx, filter)
  if (!found) return { items: await listInOrder(tx, filter, page_size, offset), total: await countMany(tx, filter) }
  return { items: await pageOf(tx, filter, found, page_size, offset), total: await countFound(tx, filter, found) }
}

/** Of actor and target that with fewer entries; null when each that was asked for means too many values. */
async function findFewest(tx: Tx, filter: AuditFilter): Promise<Found | null> {
  const found: Found[] = []
  for (const facet of ['target', 'actor'] as const) {
    if (!filter[facet]) continue
    const { rows } = await sql<{ tenantId: string | null; value: string; entries: number }>`
      select * from ${matching(filter, facet, foundMax + 1)}`.execute(tx)
    if (rows.length > foundMax) continue
    const values = rows.filter(({ tenantId }) => !filter.tenantId || tenantId === filter.tenantId)
    found.push({ facet, values, entries: values.reduce((sum, row) => sum + row.entries, 0) })
  }
  return found.sort((a, b) => a.entries - b.entries)[0] ?? null
}

const pattern = (text: string | undefined): string => likePattern(text ?? '')

/** Targets are looked up by their parts alone: an index that also names a tenant would walk over all of that one's. */
const matching = ({ tenantId, ...filter }: AuditFilter, facet: Facet, most: number) => {
  const wanted = facet === 'actor' ? (tenantId ?? null) : null
  return sql`search_audit_values(${wanted}::uuid, ${facet}, ${pattern(filter[facet])}, ${most}::integer)`
}

async function pageOf(tx: Tx, filter: AuditFilter, found: Found, limit: number, offset: number): Promise<AuditRow[]> {
  const { rows } = await sql<AuditRow>`
    select * from (${entriesOf(tx, filter, found, offset + limit)}) e
    order by at desc, id desc limit ${limit} offset ${offset}`.execute(tx)
  return rows
}

async function countFound(tx: Tx, filter: AuditFilter, found: Found): Promise<number> {
  if (isAlone(filter)) return found.entries + (await countUncounted(tx, filter, found.facet))
  const { rows } = await sql<{ total: number }>`
    select count(*) as total from (${entriesOf(tx, filter, found, null)}) e`.execute(tx)
  return rows[0]!.total
}

async function countMany(tx: Tx, filter: AuditFilter): Promise<number> {
  if (!isAlone(filter)) return countEntries(tx, filter)
  const facet = filter.target ? 'target' : 'actor'
  const { tenantId, [facet]: text } = filter
  const ofTenant = tenantId ? sql`c.tenant_id = ${tenantId}` : sql`true`
  const byName =
    facet === 'actor' ? sql`or c.value in (select email from users where full_name ilike ${pattern(text)})` : sql``
  // So many values match that no index helps: here, and not through the function, which would hand all of them over.
  const { rows } = await sql<{ total: number }>`
    select coalesce(sum(c.entries), 0)::bigint as total from audit_counts c
    where c.facet = ${facet} and ${ofTenant} and (c.value collate "default" ilike ${pattern(text)} ${byName})`.execute(
    tx,
  )
  return rows[0]!.total + (await countUncounted(tx, filter, facet))
}

/** Whether nothing but an actor or a target was asked for, so that the counts are the total. */
const isAlone = ({ tenantId: _, ...asked }: AuditFilter): boolean => Object.keys(asked).length === 1

/**
 * At most so many entries of each value, the newest; with those that are in no count. Entries are taken from the index
 * value by value, so the time does not depend on how old they are.
 */
function entriesOf(tx: Tx, filter: AuditFilter, { facet, values }: Found, most: number | null) {
  const column = columnOf[facet]
  const newest = (ofTenant: ReturnType<typeof sql<boolean>>) => {
    const { [facet]: _, tenantId: __, ...rest } = filter
    let entries = auditEntries(tx, rest).select(auditColumns).where(ofTenant).where('e.seq', 'is not', null)
    entries = entries.where(sql<boolean>`${column} = v.value`)
    if (facet === 'target') entries = entries.where(isCounted)
    return most === null ? entries : entries.orderBy('e.at', 'desc').orderBy('e.id', 'desc').limit(most)
  }
  const ofTenants = values.filter(({ tenantId }) => tenantId !== null)
  const ofSystem = values.filter(({ tenantId }) => tenantId === null)
  const texts = (list: Found['values']) => list.map(({ value }) => value)
  return sql`
    select e.* from unnest(${ofTenants.map(({ tenantId }) => tenantId)}::uuid[], ${texts(ofTenants)}::text[]) v (tenant_id, value)
      cross join lateral (${newest(sql<boolean>`e.tenant_id = v.tenant_id`)}) e
    union all
    select e.* from unnest(${texts(ofSystem)}::text[]) v (value)
      cross join lateral (${newest(sql<boolean>`e.tenant_id is null`)}) e
    union all
    (${uncounted(tx, filter, facet).select(auditColumns)})`
}

const isCounted = sql<boolean>`octet_length(e.target) <= ${sql.lit(countedBytesMax)}`
const isLong = sql<boolean>`octet_length(e.target) > ${sql.lit(countedBytesMax)}`

/** Entries that are not sealed yet, or have too long a target: few. */
const uncounted = (tx: Tx, filter: AuditFilter, facet: Facet) =>
  auditEntries(tx, filter).where(({ eb, or }) =>
    facet === 'target' ? or([eb('e.seq', 'is', null), isLong]) : eb('e.seq', 'is', null),
  )

async function countUncounted(tx: Tx, filter: AuditFilter, facet: Facet): Promise<number> {
  const total = sql<number>`count(*)`.as('total')
  return (await uncounted(tx, filter, facet).select(total).executeTakeFirstOrThrow()).total
}
