import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { ensureApplicationRole } from './application-role.ts'

/** The migrations of this release. */
export const migrationsFolder = fileURLToPath(new URL('../../../migrations', import.meta.url))

// Any constant that nobody else uses; one migrator works at a time.
const advisoryLock = 7_000_001

export interface Migration {
  name: string
  sql: string
  /** SHA-256 of the file, hexadecimal. */
  checksum: string
  /** Those of texts it replaces: files that failed on some databases, and were mended with what comes later in mind. */
  formerChecksums: string[]
}

const formerChecksum = /^-- Former text: sha256 ([0-9a-f]{64})$/gm

/** Reads the files `NNNN_name.sql` in order. @throws for another name or a number used twice. */
export async function readMigrations(folder: string): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  for (const [index, name] of names.entries()) {
    if (!/^\d{4}_[a-z0-9_]+\.sql$/.test(name)) throw new Error(`migration ${name}: the name must be like 0001_name.sql`)
    const next = names[index + 1]
    if (next?.slice(0, 4) === name.slice(0, 4)) throw new Error(`migrations ${name} and ${next} have the same number`)
  }
  return Promise.all(
    names.map(async (name) => {
      const sql = await readFile(join(folder, name), 'utf8')
      const checksum = createHash('sha256').update(sql).digest('hex')
      return { name, sql, checksum, formerChecksums: [...sql.matchAll(formerChecksum)].map(([, former]) => former!) }
    }),
  )
}

/** What is still to do; refuses files that were changed, removed or slipped in after others had been applied. */
function pendingOf(migrations: Migration[], applied: { name: string; checksum: string }[]): Migration[] {
  for (const [index, { name, checksum }] of applied.entries()) {
    const known = migrations.find((migration) => migration.name === name)
    if (!known) throw new Error(`migration ${name} was applied to this database, and this release does not have it`)
    if (known.checksum !== checksum && !known.formerChecksums.includes(checksum)) {
      throw new Error(`migration ${name} was changed after it had been applied; write a new one instead`)
    }
    const earlier = migrations[index]
    if (earlier && earlier.name !== name) {
      throw new Error(
        `migration ${earlier.name} comes before ${name}, which is applied already; give it a later number`,
      )
    }
  }
  return migrations.slice(applied.length)
}

async function apply(client: pg.Client, { name, sql, checksum }: Migration): Promise<void> {
  try {
    // Policies bind the owner as well, and a migration works on the rows of all tenants.
    await client.query("begin; set local app.system = 'on'")
    await client.query(sql)
    await client.query('insert into schema_migrations (name, checksum) values ($1, $2)', [name, checksum])
    await client.query('commit')
  } catch (cause) {
    await client.query('rollback').catch(() => {})
    const { message, position } = cause as pg.DatabaseError
    const line = position ? `:${sql.slice(0, Number(position)).split('\n').length}` : ''
    throw new Error(`migration ${name}${line}: ${message}`, { cause })
  }
}

/**
 * Brings a database to this release: applies what is missing, in order, each file in a transaction of its own.
 * Concurrent callers wait for one another.
 * @param ownerUrl connection of the user who owns, or will own, the tables
 * @returns the names of the migrations that were applied now
 */
export async function migrate(ownerUrl: string, folder = migrationsFolder): Promise<string[]> {
  const migrations = await readMigrations(folder)
  const client = new pg.Client({ connectionString: ownerUrl, application_name: 'platform-mlops migrations' })
  // A lost connection also fails the query that is under way, which is where it is reported.
  client.on('error', () => {})
  await client.connect()
  try {
    await client.query('select pg_advisory_lock($1)', [advisoryLock])
    await ensureApplicationRole(client)
    await client.query(`create table if not exists schema_migrations (
      name text primary key, checksum text not null, applied_at timestamptz not null default now())`)
    const { rows } = await client.query('select name, checksum from schema_migrations order by name')
    const pending = pendingOf(migrations, rows)
    for (const migration of pending) await apply(client, migration)
    return pending.map(({ name }) => name)
  } finally {
    await client.end()
  }
}
