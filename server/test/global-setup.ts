import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import pino from 'pino'
import type { TestProject } from 'vitest/node'
import { embeddedUrls } from '../src/platform/db/database.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../src/platform/db/embedded-postgres.ts'
import { migrate, migrationsFolder, readMigrations } from '../src/platform/db/migrations.ts'

/** What a test file needs to make a database of its own; `createTestDatabase()` reads it. */
export interface TestCluster {
  socketFolder: string
  port: number
  /** Name of the migrated database that is cloned. */
  template: string
}

declare module 'vitest' {
  export interface ProvidedContext {
    testCluster: TestCluster
  }
}

// Nothing here outlives the run, so nothing needs to reach the disk.
const settings = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  shared_buffers: '64MB',
  max_connections: '200',
}

async function createTemplate(server: EmbeddedPostgres): Promise<string> {
  const checksums = (await readMigrations(migrationsFolder)).map(({ checksum }) => checksum)
  const template = `template_${createHash('sha256').update(checksums.join()).digest('hex').slice(0, 16)}`
  const admin = new pg.Client({ connectionString: embeddedUrls(server, 'postgres').ownerUrl })
  await admin.connect()
  try {
    await admin.query(`create database ${template}`)
    await migrate(embeddedUrls(server, template).ownerUrl)
    // Cloning needs a template that nobody is connected to.
    await admin.query(`alter database ${template} with allow_connections false`)
  } finally {
    await admin.end()
  }
  return template
}

/** One throw-away database server per test run, with a migrated template. */
export default async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'platform-mlops-test-'))
  const remove = () => rm(folder, { recursive: true, force: true })
  try {
    const log = pino({ level: 'warn' }, pino.destination(2))
    const server = await startEmbeddedPostgres({ folder, log, settings })
    const template = await createTemplate(server)
    provide('testCluster', { socketFolder: server.socketFolder, port: server.port, template })
    return () => server.stop().finally(remove)
  } catch (error) {
    await remove()
    throw error
  }
}
