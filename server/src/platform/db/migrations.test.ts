import { createHash } from 'node:crypto'
import { mkdtemp, readFile, rename, rm, unlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../../test/database.ts'
import { migrate, migrationsFolder, readMigrations } from './migrations.ts'

let db: TestDatabase
let folder: string

const write = (name: string, sql: string) => writeFile(join(folder, name), sql)

async function asOwner(statement: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: db.ownerUrl })
  await client.connect()
  try {
    return (await client.query(statement)).rows
  } finally {
    await client.end()
  }
}

beforeEach(async () => {
  db = await createTestDatabase()
  folder = await mkdtemp(join(tmpdir(), 'migrations-'))
  // The database was cloned from a migrated one; start from an empty one instead.
  await asOwner('drop schema public cascade; create schema public')
  await write('0000_first.sql', 'create table first (id int)')
  await write('0001_second.sql', 'create table second (id int)')
})
afterEach(async () => {
  await db.drop()
  await rm(folder, { recursive: true })
})

describe('migrate()', () => {
  test('applies what is missing, in order, once', async () => {
    expect(await migrate(db.ownerUrl, folder)).toEqual(['0000_first.sql', '0001_second.sql'])
    expect(await migrate(db.ownerUrl, folder)).toEqual([])
    await write('0002_third.sql', 'alter table second rename to renamed')
    expect(await migrate(db.ownerUrl, folder)).toEqual(['0002_third.sql'])
    expect(await asOwner('select * from renamed')).toEqual([])
  })

  test('two at once apply each file once', async () => {
    await write('0002_slow.sql', 'select pg_sleep(0.2); create table slow (id int)')
    const [one, other] = await Promise.all([migrate(db.ownerUrl, folder), migrate(db.ownerUrl, folder)])
    expect([one.length, other.length].sort()).toEqual([0, 3])
  })

  test('a failing file leaves nothing of itself, and its name and line are told', async () => {
    await write('0002_broken.sql', 'create table half (id int);\n\ncreate table broken (id nonsense)')
    await expect(migrate(db.ownerUrl, folder)).rejects.toThrow(/0002_broken\.sql:3: type "nonsense" does not exist/)
    expect(await asOwner("select to_regclass('half') as half, to_regclass('second') as second")).toEqual([
      { half: null, second: 'second' },
    ])
  })

  test('refuses a file that was changed after it had been applied', async () => {
    await migrate(db.ownerUrl, folder)
    await write('0001_second.sql', 'create table second (id bigint)')
    await expect(migrate(db.ownerUrl, folder)).rejects.toThrow(/0001_second\.sql was changed/)
  })

  test('goes on after the former text of a file that was mended, when the file names it', async () => {
    const former = await readFile(join(folder, '0001_second.sql'))
    await migrate(db.ownerUrl, folder)
    const checksum = createHash('sha256').update(former).digest('hex')
    await write('0001_second.sql', `-- Former text: sha256 ${checksum}\ncreate table second (id bigint)`)
    await write('0003_fourth.sql', 'create table fourth (id int)')
    expect(await migrate(db.ownerUrl, folder)).toEqual(['0003_fourth.sql'])
  })

  test('refuses a database that a newer release migrated', async () => {
    await migrate(db.ownerUrl, folder)
    await unlink(join(folder, '0001_second.sql'))
    await expect(migrate(db.ownerUrl, folder)).rejects.toThrow(/0001_second\.sql was applied .* does not have it/)
  })

  test('refuses a file slipped in before one that was applied', async () => {
    await rename(join(folder, '0001_second.sql'), join(folder, '0005_second.sql'))
    await migrate(db.ownerUrl, folder)
    await write('0003_late.sql', 'select 1')
    await expect(migrate(db.ownerUrl, folder)).rejects.toThrow(/0003_late\.sql comes before 0005_second\.sql/)
  })

  test('refuses odd names and a number used twice', async () => {
    await write('0001_other.sql', 'select 1')
    await expect(migrate(db.ownerUrl, folder)).rejects.toThrow(/have the same number/)
    await rename(join(folder, '0001_other.sql'), join(folder, 'other.sql'))
    await expect(migrate(db.ownerUrl, folder)).rejects.toThrow(/other\.sql: the name/)
  })

  test('sees the rows of all tenants', async () => {
    await write('0002_scope.sql', "do $$ begin assert current_setting('app.system') = 'on'; end $$")
    await expect(migrate(db.ownerUrl, folder)).resolves.toContain('0002_scope.sql')
  })
})

test('every table with a tenant is closed, for its owner too', async () => {
  const fresh = await createTestDatabase()
  const client = new pg.Client({ connectionString: fresh.ownerUrl })
  await client.connect()
  const { rows } = await client.query(`
    select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
     where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace
       and not (c.relrowsecurity and c.relforcerowsecurity
                and exists (select from pg_policy where polrelid = c.oid and polname = 'tenant_isolation'))`)
  await client.end()
  await fresh.drop()
  expect(rows).toEqual([])
})

test('every migration takes databases of the text it was released with', async () => {
  const text = await readFile(join(migrationsFolder, 'released.sha256'), 'utf8')
  const released = new Map([...text.matchAll(/^([0-9a-f]{64}) {2}(\S+)$/gm)].map(([, sum, name]) => [name!, sum!]))
  const migrations = await readMigrations(migrationsFolder)
  expect([...released.keys()]).toEqual(migrations.map(({ name }) => name))
  const refused = migrations.filter(
    ({ name, checksum, formerChecksums }) => ![checksum, ...formerChecksums].includes(released.get(name)!),
  )
  expect(refused.map(({ name }) => name)).toEqual([])
})
