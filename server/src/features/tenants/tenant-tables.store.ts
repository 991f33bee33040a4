import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

/** Tables whose rows outlive their tenant: the record of its deletion, and the audit, which has its own eraser. */
const outliving = ['tenant_deletions', 'audit_events', 'audit_counts']

/**
 * Every table that holds rows of tenants, those that refer to others before these, read from the catalogue so that a
 * new table is never forgotten.
 */
export async function listTenantTables(tx: Tx): Promise<string[]> {
  const { rows } = await sql<{ name: string; refersTo: string[] }>`
    select c.relname as name, coalesce(array_agg(distinct r.relname::text) filter (where r.relname is not null), '{}') as refers_to
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
    left join pg_constraint k on k.conrelid = c.oid and k.contype = 'f' and k.confrelid <> c.oid
    left join pg_class r on r.oid = k.confrelid
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and c.relname <> all(${outliving})
    group by c.relname order by c.relname`.execute(tx)
  const refersTo = new Map(rows.map((row) => [row.name, row.refersTo]))
  const ordered = new Set<string>()
  const place = (name: string, path: string[]) => {
    if (ordered.has(name) || path.includes(name)) return
    for (const [other, targets] of refersTo) if (targets.includes(name)) place(other, [...path, name])
    ordered.add(name)
  }
  for (const name of refersTo.keys()) place(name, [])
  return [...ordered]
}

/** Tables that are only ever added to: their rows go with those they belong to, by `on delete cascade`. */
export async function listCascadedTables(tx: Tx): Promise<Set<string>> {
  const { rows } = await sql<{ name: string }>`
    select relname as name from pg_class
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not has_table_privilege(oid, 'delete')`.execute(
    tx,
  )
  return new Set(rows.map((row) => row.name))
}

/** Rows of the tenant per table, without the empty ones. */
export async function countTenantRows(tx: Tx, tenantId: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const table of (await listTenantTables(tx)).sort()) {
    const { rows } = await sql<{ count: number }>`
      select count(*) from ${sql.table(table)} where tenant_id = ${tenantId}`.execute(tx)
    if (rows[0]!.count > 0) counts[table] = rows[0]!.count
  }
  return counts
}

/** Removes at most so many rows of the tenant and says how many there were. */
export async function deleteTenantRows(tx: Tx, table: string, tenantId: string, limit: number): Promise<number> {
  // A row is known by table and place, because a partitioned table has equal places in its parts.
  const result = await sql`
    delete from ${sql.table(table)} where (tableoid, ctid) in (
      select tableoid, ctid from ${sql.table(table)} where tenant_id = ${tenantId} limit ${limit})`.execute(tx)
  return Number(result.numAffectedRows ?? 0)
}
