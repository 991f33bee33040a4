import { Kysely, PostgresDialect } from 'kysely'
import { generate, PostgresDialect as PostgresGenerator } from 'kysely-codegen'
import pg from 'pg'

/** Writes the TypeScript types of the tables of a migrated database, as the queries see them. */
export async function generateDatabaseTypes(ownerUrl: string): Promise<string> {
  const pool = new pg.Pool({ connectionString: ownerUrl, max: 2 })
  pool.on('error', () => {})
  const db = new Kysely({ dialect: new PostgresDialect({ pool }) })
  try {
    return await generate({
      camelCase: true,
      db,
      dialect: new PostgresGenerator({ dateParser: 'string', numericParser: 'number' }),
      excludePattern: 'schema_migrations',
      // As column-types.ts parses them.
      typeMapping: { int8: 'number', numeric: 'number' },
      print: false,
    })
  } finally {
    await db.destroy()
  }
}
