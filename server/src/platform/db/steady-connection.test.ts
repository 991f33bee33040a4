import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../../test/database.ts'
import { eventually } from '../../../test/harness.ts'
import { openSteadyConnection } from './steady-connection.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database?.drop())

const log = pino({ level: 'silent' })

test('comes back after every loss, one at a time, and not after it was closed', async () => {
  const pids: number[] = []
  let lost = 0
  let open = 0
  const connection = await openSteadyConnection(database, {
    name: 'test',
    log,
    lost: () => lost++,
    async prepare(client) {
      open++
      client.once('end', () => open--)
      pids.push((await client.query('select pg_backend_pid() as pid')).rows[0].pid)
    },
  })
  for (let times = 1; times <= 3; times++) {
    await database.pool.query('select pg_terminate_backend($1)', [pids.at(-1)])
    await eventually(async () => pids.length === times + 1)
    expect(lost).toBe(times)
  }
  expect(open).toBe(1)
  await connection.close()
  await eventually(async () => open === 0)
  expect(pids).toHaveLength(4)
})

test('an attempt that fails while it is prepared is followed by one other, not by two', async () => {
  let attempts = 0
  const connection = await openSteadyConnection(database, {
    name: 'test',
    log,
    async prepare(client) {
      attempts++
      const { pid } = (await client.query('select pg_backend_pid() as pid')).rows[0]
      // The first is lost later; the next two are lost before they are of use.
      if (attempts === 1) setTimeout(() => void database.pool.query('select pg_terminate_backend($1)', [pid]), 10)
      else if (attempts < 4) await client.query('select pg_terminate_backend(pg_backend_pid())')
    },
  })
  await eventually(async () => attempts === 4)
  await new Promise((resolve) => setTimeout(resolve, 1000))
  expect(attempts).toBe(4)
  await connection.close()
})
