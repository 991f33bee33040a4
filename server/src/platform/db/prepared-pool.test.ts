import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../../test/database.ts'
import { statementNames } from './prepared-pool.ts'
import { readTransaction } from './transaction.ts'

let db: TestDatabase
let owner: pg.Client

beforeAll(async () => {
  db = await createTestDatabase()
  owner = new pg.Client({ connectionString: db.ownerUrl })
  await owner.connect()
  await owner.query('create table pairs (a int, b text)')
  await owner.query("insert into pairs values (1, 'one'), (2, 'two')")
})
afterAll(async () => {
  await owner.end()
  await db.drop()
})

const pairOf = (a: number) =>
  readTransaction(db, 'system', async (tx) => (await sql`select * from pairs where a = ${a}`.execute(tx)).rows)

const prepared = () =>
  readTransaction(db, 'system', async (tx) => {
    const { rows } = await sql<{ statement: string }>`
      select statement from pg_prepared_statements where statement like '%from pairs%'`.execute(tx)
    return rows.length
  })

describe('statements', () => {
  test('asked again and again are prepared, and answer for each value', async () => {
    expect(await prepared()).toBe(0)
    for (let times = 0; times < 4; times++) {
      expect(await pairOf(1)).toEqual([{ a: 1, b: 'one' }])
      expect(await pairOf(2)).toEqual([{ a: 2, b: 'two' }])
    }
    expect(await prepared()).toBe(1)
  })

  test('outlive a change of the table they read by a newer release', async () => {
    await owner.query('alter table pairs add column c int default 3')
    expect(await pairOf(1)).toEqual([{ a: 1, b: 'one', c: 3 }])
    await owner.query('alter table pairs drop column b')
    expect(await pairOf(2)).toEqual([{ a: 2, c: 3 }])
  })

  test('that fail leave the connection as it was', async () => {
    const failing = (by: number) => readTransaction(db, 'system', (tx) => sql`select 1 / ${by}::int as n`.execute(tx))
    for (let times = 0; times < 8; times++) await expect(failing(0)).rejects.toThrow(/division by zero/)
    expect((await failing(1)).rows).toEqual([{ n: 1 }])
  })
})

describe('names', () => {
  test('come with the sixth time, stay, and are new after a renewal', () => {
    const names = statementNames()
    for (let times = 0; times < 5; times++) expect(names.of('select 1')).toBeUndefined()
    expect(names.of('select 1')).toBe('s0')
    expect(names.of('select 1')).toBe('s0')
    names.renew()
    for (let times = 0; times < 6; times++) names.of('select 1')
    expect(names.of('select 1')).toBe('s1')
  })

  test('are given to so many texts and no more', () => {
    const names = statementNames()
    const given = new Set<string | undefined>()
    for (let text = 0; text < 1000; text++)
      for (let times = 0; times < 7; times++) given.add(names.of(`select ${text}`))
    given.delete(undefined)
    expect(given.size).toBe(300)
  })
})
