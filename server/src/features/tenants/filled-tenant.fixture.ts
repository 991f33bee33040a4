import { createHash } from 'node:crypto'
import pg from 'pg'

interface Column {
  table: string
  name: string
  type: string
  required: boolean
  /** Table and column it refers to. */
  refers: [string, string] | null
}

/**
 * One row of the tenant in every table that holds rows of tenants, made from the catalogue alone, so that a table of a
 * later release is filled too. Rows refer to one another as the foreign keys say.
 */
export async function fillEveryTable(ownerUrl: string, tenantId: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: ownerUrl })
  await client.connect()
  try {
    // Neither order nor triggers matter: the rows are complete when all of them are there.
    await client.query("set session_replication_role = replica; set app.system = 'on'")
    const columns = await columnsOfTenantTables(client)
    await dropChecks(client)
    const tables = [...new Set(columns.map(({ table }) => table))].filter((table) => !given.has(table))
    for (const table of tables) {
      const own = columns.filter(
        (column) => column.table === table && (column.required || column.refers || column.name === 'tenant_id'),
      )
      const values = own.map((column) => valueFor(column, columns, tenantId))
      const names = own.map(({ name }) => `"${name}"`).join()
      const places = own.map(({ type }, index) => `$${index + 1}::${type}`).join()
      await client
        .query(`insert into ${table} (${names}) values (${places}) on conflict do nothing`, values)
        .catch((cause: Error) => {
          throw new Error(`${table}: ${cause.message}`, { cause })
        })
    }
    // A deletion waits for live work, and nobody works on this.
    await client.query("update runs set state = 'succeeded' where tenant_id = $1", [tenantId])
    return tables
  } finally {
    await client.end()
  }
}

/** The deletion makes it itself. */
const given = new Set(['tenant_deletions'])

async function columnsOfTenantTables(client: pg.Client): Promise<Column[]> {
  const { rows } = await client.query(`
    select c.relname as table, a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
      a.attnotnull and not a.atthasdef and a.attidentity = '' and a.attgenerated = '' as required,
      (select array[k.confrelid::regclass::text, r.attname::text] from pg_constraint k
        join unnest(k.conkey, k.confkey) as pair (own, other) on pair.own = a.attnum
        join pg_attribute r on r.attrelid = k.confrelid and r.attnum = pair.other
        where k.conrelid = c.oid and k.contype = 'f' and a.attgenerated = ''
        order by array_length(k.conkey, 1) limit 1) as refers
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and exists (select from pg_attribute t where t.attrelid = c.oid and t.attname = 'tenant_id' and not t.attisdropped)
    order by c.relname, a.attnum`)
  return rows
}

/** What a value must look like says nothing about who removes it; the database is this test's own. */
async function dropChecks(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ statement: string }>(`
    select format('alter table %s drop constraint %I', conrelid::regclass, conname) as statement
    from pg_constraint where contype = 'c' and conrelid <> 0 and coninhcount = 0
      and connamespace = 'public'::regnamespace`)
  for (const { statement } of rows) await client.query(statement)
}

function valueFor(column: Column, columns: Column[], tenantId: string): unknown {
  const { table, name, type, refers } = column
  if (name === 'tenant_id') return tenantId
  if (refers) {
    const target = columns.find((other) => other.table === refers[0] && other.name === refers[1])
    // Tables without tenants are not filled; a key to one stays empty where it may.
    if (!target) return column.required ? '00000000-0000-7000-8000-000000000000' : null
    return target.table === table
      ? valueFor({ ...target, refers: null }, columns, tenantId)
      : valueFor(target, columns, tenantId)
  }
  if (type.endsWith('[]')) return '{}'
  if (type === 'uuid') return uuidOf(`${table}.${name}`)
  if (/^(bigint|integer|smallint|numeric|real|double)/.test(type)) return 1
  if (type === 'boolean') return true
  if (/^(timestamp|date)/.test(type)) return '2026-01-01T00:00:00Z'
  if (/^json/.test(type)) return '{}'
  if (type === 'bytea') return Buffer.alloc(32)
  return `${table}.${name}`
}

function uuidOf(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-7${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
