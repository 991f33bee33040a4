import { CamelCasePlugin, Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { applicationRole, assertBound } from './application-role.ts'
import { columnTypes } from './column-types.ts'
import type { DB } from './database.generated.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from './embedded-postgres.ts'
import type { DatabaseLog } from './embedded-server.ts'
import { migrate } from './migrations.ts'
import { preparedPool } from './prepared-pool.ts'

export interface Database {
  /** Outside `transaction()` the tables of tenants look empty: nobody said for whom the query works. */
  kysely: Kysely<DB>
  pool: pg.Pool
  /** Connection of the owner of the tables, for migrations and maintenance; row-level security may not bind it. */
  ownerUrl: string
  /** A connection of its own, for LISTEN and session locks. The caller ends it, and hears of its loss by `end`. */
  listenConnection(): Promise<pg.Client>
  /** Ends the pool, and the server when it is embedded. */
  close(): Promise<void>
}

export interface DatabaseOptions {
  /** A PostgreSQL server of the operator's own; without it the embedded one starts. */
  url?: string | undefined
  /** Data folder of the embedded server. */
  folder: string
  log: DatabaseLog
  /** Largest number of pooled connections; 20 when absent. */
  poolSize?: number
  /** Folder of the migrations; those of this release when absent. */
  migrations?: string
  /** Settings of the embedded server by name, over its defaults. */
  settings?: Record<string, string>
  /** The embedded server died and does not come back. */
  onFatal?: (error: Error) => void
}

/** Folder of the embedded server within the data folder of an instance. */
export const databaseFolderName = 'database'

/** Name of the platform's database on the embedded server. */
export const embeddedName = 'platform'

/** The two addresses of one database: of the owner of the tables, and of the role that the server works as. */
export interface DatabaseUrls {
  ownerUrl: string
  applicationUrl: string
}

type Socket = Pick<EmbeddedPostgres, 'socketFolder' | 'port'>

/** Addresses of a database behind the socket of an embedded server, which trusts whoever reaches it. */
export function embeddedUrls({ socketFolder, port }: Socket, name: string): DatabaseUrls {
  // Complete addresses: libraries that need a host name and a port read them too, and no PG* variable has a say.
  const urlOf = (user: string) =>
    `postgres://${user}@localhost:${port}/${name}?host=${encodeURIComponent(socketFolder)}&sslmode=disable`
  return { ownerUrl: urlOf('postgres'), applicationUrl: urlOf(applicationRole) }
}

/** The operator's address, and the same one acting as the role from the first statement on. */
export function externalUrls(ownerUrl: string): DatabaseUrls {
  const [base = '', query = ''] = ownerUrl.split('?', 2)
  const parameters = new URLSearchParams(query)
  const options = [parameters.get('options'), `-c role=${applicationRole}`].filter(Boolean).join(' ')
  parameters.set('options', options)
  return { ownerUrl, applicationUrl: `${base}?${parameters.toString().replaceAll('+', '%20')}` }
}

async function ensureEmbeddedDatabase(adminUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl })
  client.on('error', () => {})
  await client.connect()
  try {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [embeddedName])
    if (rowCount === 0) await client.query(`create database ${embeddedName}`)
  } finally {
    await client.end()
  }
}

/** Connects to a migrated database as the application role. @throws when row-level security would not bind us. */
export async function connectDatabase(urls: DatabaseUrls, log: DatabaseLog, poolSize = 20): Promise<Database> {
  const config = { connectionString: urls.applicationUrl, types: columnTypes, application_name: 'platform-mlops' }
  const pool = new pg.Pool({
    ...{ ...config, pipeline: true, max: poolSize, connectionTimeoutMillis: 30_000 },
    // A new connection takes as long as some requests, and prepares its statements anew.
    ...{ min: Math.min(4, poolSize), idleTimeoutMillis: 60_000 },
  })
  pool.on('connect', (client) =>
    client.on('error', (error) => log.warn({ err: error }, 'a database connection was lost')),
  )
  // The pool repeats what its idle clients report.
  pool.on('error', () => {})
  try {
    await assertBound(pool)
  } catch (error) {
    await pool.end()
    throw error
  }
  // Keys inside JSON documents are data and stay as they are.
  const plugins = [new CamelCasePlugin({ maintainNestedObjectKeys: true })]
  const kysely = new Kysely<DB>({ dialect: new PostgresDialect({ pool: preparedPool(pool) }), plugins })
  const listenConnection = async () => {
    const client = new pg.Client({ ...config, keepAlive: true })
    client.on('error', (error) => log.warn({ err: error }, 'a dedicated database connection was lost'))
    await client.connect()
    return client
  }
  return {
    kysely,
    pool,
    ownerUrl: urls.ownerUrl,
    listenConnection,
    close: () => kysely.destroy().then(() => endPool(pool)),
  }
}

/** Kysely ends the pool only when it was used. */
async function endPool(pool: pg.Pool): Promise<void> {
  if (!pool.ending) await pool.end()
}

/** Opens the platform's database: starts the embedded server unless `url` is given, migrates, connects. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const { url, folder, log, migrations, settings, onFatal } = options
  if (url) {
    await migrate(url, migrations)
    return connectDatabase(externalUrls(url), log, options.poolSize)
  }
  const server = await startEmbeddedPostgres({ folder, log, settings, onFatal })
  try {
    await ensureEmbeddedDatabase(embeddedUrls(server, 'postgres').ownerUrl)
    const urls = embeddedUrls(server, embeddedName)
    await migrate(urls.ownerUrl, migrations)
    const database = await connectDatabase(urls, log, options.poolSize)
    return { ...database, close: () => database.close().finally(server.stop) }
  } catch (error) {
    await server.stop()
    throw error
  }
}
