import { sql } from 'kysely'
import pg from 'pg'
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../../test/database.ts'
import { systemClock } from '../../platform/clock.ts'
import type { SystemCtx } from '../../platform/context.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'
import { eraseAudit, sealAudit, verifyAudit } from './chain.ts'

let database: TestDatabase
let ctx: SystemCtx
beforeAll(async () => {
  database = await createTestDatabase()
  const services = { db: database, clock: systemClock, log: pino({ level: 'silent' }) } as unknown as SystemCtx
  ctx = { ...services, kind: 'system', scope: 'system', actor: null, requestId: 'test', audit: null }
})
afterAll(() => database?.drop())
beforeEach(() =>
  asOwner(
    'alter table audit_events disable trigger audit_events_sealed; delete from audit_events; delete from audit_erasures; delete from audit_counts; alter table audit_events enable trigger audit_events_sealed',
  ),
)

/** What somebody with the keys to the database could do. */
async function asOwner(statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: database.ownerUrl })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

const write = (count: number, at = '2026-01-01T00:00:00Z') =>
  transaction(database, 'system', (tx) =>
    tx
      .insertInto('auditEvents')
      .values(
        Array.from({ length: count }, (_, i) => ({
          id: newId(),
          at: new Date(Date.parse(at) + i),
          action: 'test.made',
          target: `row ${i}`,
          outcome: 'success',
          detail: JSON.stringify({ i, text: 'ü"' }),
        })),
      )
      .execute(),
  )

describe('the count of sealed entries per action, actor and target', () => {
  interface Count {
    facet: string
    value: string
    entries: number
  }
  const kept = async () =>
    (
      await transaction(database, 'system', (tx) =>
        sql<Count>`select facet, value, entries from audit_counts order by facet, value`.execute(tx),
      )
    ).rows
  const there = async () =>
    (
      await transaction(database, 'system', (tx) =>
        sql<Count>`
          select facet, value collate "C" as value, count(*) as entries from audit_events
          cross join lateral (values ('action', action), ('actor', actor_email), ('target', target)) f (facet, value)
          where seq is not null and value is not null group by 1, 2 order by 1, 2`.execute(tx),
      )
    ).rows

  test('is what there is after sealing, sealing more, and erasing some and all', async () => {
    await write(7)
    expect(await kept()).toEqual([])
    await sealAudit(ctx)
    await write(5, '2026-03-01T00:00:00Z')
    await sealAudit(ctx)
    expect(await kept()).toEqual(await there())
    expect((await kept()).slice(0, 2)).toEqual([
      { facet: 'action', value: 'test.made', entries: 12 },
      { facet: 'target', value: 'row 0', entries: 2 },
    ])
    await eraseAudit(ctx, { tenantId: null, before: new Date('2026-02-01T00:00:00Z') }, 'retention')
    expect((await kept()).length).toBe(6)
    expect(await kept()).toEqual(await there())
    await eraseAudit(ctx, { tenantId: null }, 'retention')
    expect(await kept()).toEqual([])
  })
})

describe('sealing', () => {
  test('gives every committed row a place, once, and the chain holds', async () => {
    await write(7)
    expect((await sealAudit(ctx)).sealed).toBe(7)
    expect((await sealAudit(ctx)).sealed).toBe(0)
    await write(3)
    const { head } = await sealAudit(ctx)
    expect(await verifyAudit(ctx)).toEqual({
      checked: 10,
      erased: 0,
      unsealed: 0,
      lastSeq: 10,
      head,
      faults: [],
      witnessed: null,
    })
  })

  test('shows when the whole chain was written anew: it no longer leads through an earlier head', async () => {
    await write(3)
    const { head } = await sealAudit(ctx)
    await write(2)
    await sealAudit(ctx)
    expect(await verifyAudit(ctx, head!)).toMatchObject({ faults: [], witnessed: true })
    await asOwner(
      "set app.system = 'on'; alter table audit_events disable trigger audit_events_sealed; delete from audit_events where seq = 1; update audit_events set seq = null, hash = null; alter table audit_events enable trigger audit_events_sealed",
    )
    await sealAudit(ctx)
    expect(await verifyAudit(ctx, head!)).toMatchObject({ checked: 4, faults: [], witnessed: false })
  })

  test('two at a time make one chain, and rows written meanwhile are waited for by nobody', async () => {
    await write(400)
    const [one, two] = await Promise.all([sealAudit(ctx), sealAudit(ctx), write(50)])
    expect(one.sealed + two.sealed).toBeGreaterThanOrEqual(400)
    await sealAudit(ctx)
    expect(await verifyAudit(ctx)).toMatchObject({ checked: 450, faults: [] })
  })

  test('a row that commits late gets its place behind rows that are younger', async () => {
    const late = await database.pool.connect()
    await late.query("begin; set local app.system = 'on'")
    await late.query(
      `insert into audit_events (id, at, action, outcome) values ('${newId()}', '2020-01-01', 'test.late', 'success')`,
    )
    await write(2)
    await sealAudit(ctx)
    await late.query('commit')
    late.release()
    await sealAudit(ctx)
    expect(await verifyAudit(ctx)).toMatchObject({ checked: 3, lastSeq: 3, faults: [] })
  })

  test('the server itself can change no sealed row', async () => {
    await write(1)
    await sealAudit(ctx)
    const change = (set: string) =>
      database.pool
        .query(`begin; set local app.system = 'on'; update audit_events set ${set}; commit`)
        .finally(() => database.pool.query('rollback'))
    await expect(change("target = 'x'")).rejects.toThrow('permission denied')
    await expect(change("hash = '\\x00'")).rejects.toThrow('is sealed')
  })
})

describe('verification finds', () => {
  const forced = (statement: string) =>
    asOwner(
      `alter table audit_events disable trigger audit_events_sealed; set app.system = 'on'; ${statement}; alter table audit_events enable trigger audit_events_sealed`,
    )

  test.each([
    ['a changed text', "update audit_events set target = 'forged' where seq = 3", 3, 'it was changed'],
    ['a changed time', "update audit_events set at = at - interval '1 hour' where seq = 1", 1, 'it was changed'],
    ['a changed detail', `update audit_events set detail = '{"i": 9}' where seq = 5`, 5, 'it was changed'],
    ['a removed row', 'delete from audit_events where seq = 2', 3, '1 entries before it are missing'],
    ['a removed beginning', 'delete from audit_events where seq <= 2', 3, 'entries before it are missing'],
    [
      'two rows exchanged',
      'update audit_events set seq = 99 where seq = 2; update audit_events set seq = 2 where seq = 3; update audit_events set seq = 3 where seq = 99',
      2,
      'it was changed',
    ],
  ])('%s', async (_name, statement, seq, reason) => {
    await write(5)
    await sealAudit(ctx)
    await forced(statement)
    expect((await verifyAudit(ctx)).faults[0]).toEqual({ seq, reason })
  })
})

describe('erasing', () => {
  test('keeps the links, so that the chain holds around the gap, and drops those before the oldest row', async () => {
    await write(4, '2020-01-01T00:00:00Z')
    await write(4)
    await sealAudit(ctx)
    const { head } = await verifyAudit(ctx)
    const before = new Date('2020-01-01T00:00:00.002Z')
    expect(await eraseAudit(ctx, { tenantId: null, before }, 'retention')).toBe(2)
    // Of the two links, the second is the anchor.
    expect(await verifyAudit(ctx)).toEqual({
      checked: 6,
      erased: 1,
      unsealed: 0,
      lastSeq: 8,
      head,
      faults: [],
      witnessed: null,
    })
    await write(1)
    await sealAudit(ctx)
    expect(await verifyAudit(ctx)).toMatchObject({ checked: 7, lastSeq: 9, faults: [] })
  })

  test('of everything leaves an anchor that the next row is chained to', async () => {
    await write(3)
    await sealAudit(ctx)
    await eraseAudit(ctx, { tenantId: null }, 'retention')
    await write(1)
    await sealAudit(ctx)
    expect(await verifyAudit(ctx)).toMatchObject({ checked: 1, lastSeq: 4, faults: [] })
  })

  test('leaves rows alone that have no place in the chain yet', async () => {
    await write(2)
    expect(await eraseAudit(ctx, { tenantId: null }, 'retention')).toBe(0)
    expect(await verifyAudit(ctx)).toMatchObject({ unsealed: 2 })
  })
})
