import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../../test/database.ts'
import { eventually } from '../../../test/harness.ts'
import { transaction } from '../db/transaction.ts'
import { type EventHub, openEventHub, publish } from './events.ts'

let db: TestDatabase
let hub: EventHub
beforeAll(async () => {
  db = await createTestDatabase()
  hub = await openEventHub(db, pino({ level: 'silent' }))
})
afterAll(async () => {
  await hub?.close()
  await db?.drop()
})

const say = (...numbers: number[]) =>
  transaction(db, 'system', async (tx) => {
    for (const n of numbers) await publish(tx, 'test', 'tick', { n })
  })

describe('the event hub', () => {
  test('tells hundreds of listeners every event, each in its order', async () => {
    const heard = Array.from({ length: 700 }, (): unknown[] => [])
    const ends = heard.map((list) => hub.subscribe('test', ({ data }) => list.push((data as { n: number }).n)))
    await say(1, 2, 3)
    await say(4)
    await eventually(async () => heard.every((list) => list.length === 4))
    expect(new Set(heard.map((list) => list.join()))).toEqual(new Set(['1,2,3,4']))
    for (const end of ends) end()
  })

  test('tells nobody who has left, even in the middle of an event', async () => {
    const heard: string[] = []
    const ends = ['first', 'second'].map((name) =>
      hub.subscribe('test', () => {
        heard.push(name)
        for (const end of ends) end()
      }),
    )
    let later = false
    await say(1)
    hub.subscribe('test', () => {
      later = true
    })
    await say(2)
    await eventually(async () => later)
    expect(heard).toEqual(['first'])
  })
})
