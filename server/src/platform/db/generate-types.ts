import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pino from 'pino'
import { embeddedUrls } from './database.ts'
import { generateDatabaseTypes } from './database-types.ts'
import { startEmbeddedPostgres } from './embedded-postgres.ts'
import { migrate } from './migrations.ts'

const target = fileURLToPath(new URL('database.generated.ts', import.meta.url))

/** The types of a database that has just this release's migrations. */
async function generateFromMigrations(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'platform-mlops-types-'))
  try {
    const log = pino({ level: 'warn' }, pino.destination(2))
    const server = await startEmbeddedPostgres({ folder, log, settings: { fsync: 'off', shared_buffers: '32MB' } })
    try {
      const { ownerUrl } = embeddedUrls(server, 'postgres')
      await migrate(ownerUrl)
      return await generateDatabaseTypes(ownerUrl)
    } finally {
      await server.stop()
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const types = await generateFromMigrations()
if (process.argv.includes('--check')) {
  const current = await readFile(target, 'utf8').catch(() => '')
  if (current !== types) {
    console.error(
      'database.generated.ts does not fit the migrations: run `node server/src/platform/db/generate-types.ts`',
    )
    process.exitCode = 1
  }
} else {
  await writeFile(target, types)
}
