import { randomUUID } from 'node:crypto'
import pg from 'pg'
import pino from 'pino'
import { inject } from 'vitest'
import { connectDatabase, type Database, embeddedUrls } from '../src/platform/db/database.ts'
import type {} from './global-setup.ts'

export type TestDatabase = Database & {
  /** Closes every connection and removes the database. */
  drop(): Promise<void>
}

async function administer(statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: embeddedUrls(inject('testCluster'), 'postgres').ownerUrl })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

/** A fresh, migrated database for one test file, connected to as the application role. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const cluster = inject('testCluster')
  const name = `test_${randomUUID().replaceAll('-', '')}`
  await administer(`create database ${name} template ${cluster.template} strategy file_copy`)
  const database = await connectDatabase(embeddedUrls(cluster, name), pino({ level: 'error' }), 10)
  const drop = async () => {
    await database.close()
    await administer(`drop database ${name} with (force)`)
  }
  return { ...database, drop }
}
