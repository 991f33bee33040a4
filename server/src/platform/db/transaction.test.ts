import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../../test/database.ts'
import { readTransaction, type Scope, transaction } from './transaction.ts'

const tenantA = { tenantId: randomUUID() }
const tenantB = { tenantId: randomUUID() }
let db: TestDatabase

async function asOwner(statements: string): Promise<void> {
  const client = new pg.Client({ connectionString: db.ownerUrl })
  await client.connect()
  await client.query(statements)
  await client.end()
}

const names = (scope: Scope, table = 'notes') =>
  transaction(db, scope, async (tx) => {
    const { rows } = await sql<{ name: string }>`select name from ${sql.table(table)} order by name`.execute(tx)
    return rows.map((row) => row.name)
  })

const insert = (scope: Scope, tenantId: string | null, name: string, table = 'notes') =>
  transaction(db, scope, (tx) =>
    sql`insert into ${sql.table(table)} (tenant_id, name) values (${tenantId}, ${name})`.execute(tx),
  )

beforeAll(async () => {
  db = await createTestDatabase()
  await asOwner(`
    create table notes (tenant_id uuid not null, name text not null primary key, amount bigint not null default 0);
    call enable_tenant_isolation('notes');
    create table announcements (tenant_id uuid, name text not null);
    call enable_tenant_isolation('announcements')`)
  await insert(tenantA, tenantA.tenantId, 'a')
  await insert(tenantB, tenantB.tenantId, 'b')
})
afterAll(() => db.drop())

describe('row-level security', () => {
  test('a tenant sees its own rows, the system sees all, and nobody in particular sees none', async () => {
    expect(await names(tenantA)).toEqual(['a'])
    expect(await names(tenantB)).toEqual(['b'])
    expect(await names('system')).toEqual(['a', 'b'])
    expect((await db.pool.query('select * from notes')).rows).toEqual([])
  })

  test('the scope ends with its transaction, also on the same connection', async () => {
    const one = await db.pool.connect()
    try {
      await one.query("begin; set local app.system = 'on'")
      expect((await one.query('select * from notes')).rowCount).toBe(2)
      await one.query('commit')
      expect((await one.query('select * from notes')).rowCount).toBe(0)
    } finally {
      one.release()
    }
  })

  test('writing into another tenant is refused', async () => {
    await expect(insert(tenantA, tenantB.tenantId, 'smuggled')).rejects.toThrow(/row-level security/)
    const move = transaction(db, tenantA, (tx) =>
      sql`update notes set tenant_id = ${tenantB.tenantId} where name = 'a'`.execute(tx),
    )
    await expect(move).rejects.toThrow(/row-level security/)
  })

  test("another tenant's rows can be neither changed nor deleted", async () => {
    const [changed, deleted] = await transaction(db, tenantA, async (tx) => [
      await sql`update notes set amount = 1 where name = 'b'`.execute(tx),
      await sql`delete from notes where name = 'b'`.execute(tx),
    ])
    expect([changed?.numAffectedRows, deleted?.numAffectedRows]).toEqual([0n, 0n])
    expect(await names(tenantB)).toEqual(['b'])
  })

  test('rows without a tenant belong to the system alone', async () => {
    await insert('system', null, 'for all', 'announcements')
    await insert(tenantA, tenantA.tenantId, 'for a', 'announcements')
    expect(await names(tenantA, 'announcements')).toEqual(['for a'])
    expect(await names('system', 'announcements')).toEqual(['for a', 'for all'])
    await expect(insert(tenantA, null, 'forged', 'announcements')).rejects.toThrow(/row-level security/)
  })

  test('the server can neither open a table nor pass for its owner', async () => {
    await expect(db.pool.query('alter table notes disable row level security')).rejects.toThrow(/must be owner/)
    await expect(db.pool.query("call enable_tenant_isolation('notes')")).rejects.toThrow(/permission denied/)
    await expect(db.pool.query('select * from schema_migrations')).rejects.toThrow(/permission denied/)
  })
})

describe('transaction()', () => {
  test('rolls back when the work throws, and gives the connection back', async () => {
    const failing = transaction(db, tenantA, async (tx) => {
      await sql`insert into notes (tenant_id, name) values (${tenantA.tenantId}, 'lost')`.execute(tx)
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await names(tenantA)).toEqual(['a'])
    expect(db.pool.idleCount).toBe(db.pool.totalCount)
  })

  test('fails when a failed statement was swallowed, because nothing would be kept', async () => {
    const swallowing = transaction(db, tenantA, async (tx) => {
      await sql`insert into notes (tenant_id, name) values (${tenantA.tenantId}, 'kept?')`.execute(tx)
      await sql`select 1 / 0`.execute(tx).catch(() => {})
    })
    await expect(swallowing).rejects.toMatchObject({ code: '25P02' })
    expect(await names(tenantA)).toEqual(['a'])
  })

  test('a connection that dies in the middle fails the transaction and no other', async () => {
    const dying = transaction(db, tenantA, (tx) => sql`select pg_terminate_backend(pg_backend_pid())`.execute(tx))
    await expect(dying).rejects.toMatchObject({ code: '57P01' })
    expect(await names(tenantA)).toEqual(['a'])
  })

  test('refuses a tenant id that is not a UUID, before anything reaches the database', async () => {
    const injected = { tenantId: "x'; set local app.system = 'on" }
    await expect(transaction(db, injected, async () => 1)).rejects.toThrow(TypeError)
  })

  test('runs the work again after a serialization failure, and both effects count', async () => {
    let runs = 0
    let reads = 0
    const bothHaveRead = Promise.withResolvers<void>()
    const increment = () =>
      transaction(db, tenantA, async (tx) => {
        runs++
        await sql`set transaction isolation level repeatable read`.execute(tx)
        const { rows } = await sql<{ amount: number }>`select amount from notes where name = 'a'`.execute(tx)
        if (++reads === 2) bothHaveRead.resolve()
        await bothHaveRead.promise
        await sql`update notes set amount = ${(rows[0]?.amount ?? Number.NaN) + 1} where name = 'a'`.execute(tx)
      })
    await Promise.all([increment(), increment()])
    const { rows } = await transaction(db, tenantA, (tx) =>
      sql<{ amount: number }>`select amount from notes`.execute(tx),
    )
    expect(rows).toEqual([{ amount: 2 }])
    expect(runs).toBe(3)
  })

  test('does not run the work again after any other error', async () => {
    let runs = 0
    const failing = transaction(db, tenantA, async (tx) => {
      runs++
      await sql`insert into notes (tenant_id, name) values (${tenantA.tenantId}, 'a')`.execute(tx)
    })
    await expect(failing).rejects.toMatchObject({ code: '23505' })
    expect(runs).toBe(1)
  })

  test('cannot be nested: a transaction is no database, and no query outside stands in for one', () => {
    const check = async () => {
      await transaction(db, 'system', async (tx) => {
        // @ts-expect-error a transaction opens no other
        await transaction({ kysely: tx }, 'system', async () => 1)
        // @ts-expect-error nor by itself
        tx.transaction()
      })
      const needsScope = (_tx: Parameters<Parameters<typeof transaction>[2]>[0]) => {}
      // @ts-expect-error a query without scope
      needsScope(db.kysely)
    }
    expect(check).toBeTypeOf('function')
  })
})

describe('readTransaction()', () => {
  test('changes nothing: the database refuses', async () => {
    const writing = readTransaction(db, tenantA, (tx) => sql`update notes set amount = 7`.execute(tx))
    await expect(writing).rejects.toMatchObject({ code: '25006' })
  })

  test('its connection takes the next transaction at once, in the scope of that one', async () => {
    const seen = (tenant: Scope) =>
      readTransaction(db, tenant, async (tx) => {
        const { rows } = await sql<{ name: string; pid: number }>`
          select name, pg_backend_pid() as pid from notes`.execute(tx)
        return rows
      })
    const first = await seen(tenantA)
    const second = await seen(tenantB)
    expect([first[0]!.name, second[0]!.name]).toEqual(['a', 'b'])
    expect(second[0]!.pid).toBe(first[0]!.pid)
    await insert(tenantA, tenantA.tenantId, 'written next')
    expect(await names(tenantA)).toEqual(['a', 'written next'])
  })

  test('leaves nothing open', async () => {
    await readTransaction(db, tenantA, (tx) => sql`select 1`.execute(tx))
    await expect(readTransaction(db, tenantA, (tx) => sql`select 1 / 0`.execute(tx))).rejects.toThrow(/zero/)
    const open = async () => {
      const { rows } = await db.pool.query(
        "select 1 from pg_stat_activity where datname = current_database() and state like 'idle in%'",
      )
      return rows.length
    }
    await expect.poll(open).toBe(0)
  })
})

test('int8 and numeric arrive as numbers, date as text, and what does not fit is refused', async () => {
  const { rows } = await db.pool.query(
    `select 9007199254740991::int8 as a, 1.5::numeric as b, '2026-02-03'::date as c, '{1,null}'::int8[] as d,
            '{1.25}'::numeric[] as e, '{2026-02-03}'::date[] as f, timestamptz '2026-01-01 00:00Z' as g`,
  )
  const dates = { c: '2026-02-03', f: ['2026-02-03'], g: new Date('2026-01-01T00:00:00Z') }
  expect(rows[0]).toEqual({ a: 9007199254740991, b: 1.5, d: [1, null], e: [1.25], ...dates })
  await expect(db.pool.query('select 9007199254740993::int8')).rejects.toThrow(RangeError)
})
