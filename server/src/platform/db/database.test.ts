import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectDatabase, type DatabaseUrls, embeddedUrls, externalUrls, openDatabase } from './database.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from './embedded-postgres.ts'

const log = pino({ level: 'silent' })
let folder: string
let server: EmbeddedPostgres

// The operator's own server: one that openDatabase() did not start, with users who are no superusers.
const urlOf = (user: string, database: string) =>
  embeddedUrls(server, database).ownerUrl.replace('postgres://postgres@', `postgres://${user}@`)

async function asAdministrator(...statements: string[]): Promise<void> {
  const client = new pg.Client({ connectionString: urlOf('postgres', 'postgres') })
  await client.connect()
  for (const statement of statements) await client.query(statement)
  await client.end()
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'external-'))
  server = await startEmbeddedPostgres({ folder, log, settings: { fsync: 'off', shared_buffers: '16MB' } })
  await asAdministrator(
    'create role plain login',
    'create role creator login createrole',
    'create database of_plain owner plain',
    'create database of_creator owner creator',
  )
})
afterAll(async () => {
  await server.stop()
  await rm(folder, { recursive: true, force: true })
})

describe('openDatabase() on a server of the operator', () => {
  test('fails with the statements to run when the user may not make the role', async () => {
    const opening = openDatabase({ url: urlOf('plain', 'of_plain'), folder, log })
    await expect(opening).rejects.toThrow(/CREATE ROLE platform_app NOLOGIN;\n {2}GRANT platform_app TO plain;/)
  })

  test('makes the role when the user may, and works as it from the first statement on', async () => {
    const db = await openDatabase({ url: urlOf('creator', 'of_creator'), folder, log })
    try {
      const { rows } = await db.pool.query('select current_user, session_user')
      expect(rows).toEqual([{ current_user: 'platform_app', session_user: 'creator' }])
      const listener = await db.listenConnection()
      expect((await listener.query('select current_user')).rows).toEqual([{ current_user: 'platform_app' }])
      await listener.end()
    } finally {
      await db.close()
    }
  })

  test('works once the administrator ran those statements', async () => {
    await asAdministrator('grant platform_app to plain')
    const db = await openDatabase({ url: urlOf('plain', 'of_plain'), folder, log })
    expect((await db.pool.query('select current_user')).rows).toEqual([{ current_user: 'platform_app' }])
    await db.close()
  })

  test('row-level security binds the owner of the tables, who is no superuser', async () => {
    const client = new pg.Client({ connectionString: urlOf('creator', 'of_creator') })
    await client.connect()
    await client.query(`create table notes (tenant_id uuid); insert into notes values (gen_random_uuid());
      call enable_tenant_isolation('notes')`)
    expect((await client.query('select * from notes')).rowCount).toBe(0)
    await client.end()
  })

  test('refuses to work as somebody whom row-level security does not bind', async () => {
    const superuser = urlOf('postgres', 'of_creator')
    const urls: DatabaseUrls = { ownerUrl: superuser, applicationUrl: superuser }
    await expect(connectDatabase(urls, log)).rejects.toThrow(/postgres passes row-level security by/)
  })
})

test("externalUrls() keeps the operator's own parameters", () => {
  const url = 'postgresql://u:p%40ss@db.example:5433/name?sslmode=require&options=-c%20lock_timeout%3D5s'
  expect(externalUrls(url)).toEqual({
    ownerUrl: url,
    applicationUrl:
      'postgresql://u:p%40ss@db.example:5433/name?sslmode=require&options=-c%20lock_timeout%3D5s%20-c%20role%3Dplatform_app',
  })
})
