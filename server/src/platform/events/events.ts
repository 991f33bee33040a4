import { sql } from 'kysely'
import type { Notification } from 'pg'
import type { Database } from '../db/database.ts'
import { openSteadyConnection } from '../db/steady-connection.ts'
import type { Tx } from '../db/transaction.ts'
import type { Log } from '../log.ts'

/** PostgreSQL refuses a payload of 8,000 bytes. @source PostgreSQL 18 documentation, NOTIFY */
const largestPayloadBytes = 7900
const pgChannel = 'platform_events'

export interface PublishedEvent {
  channel: string
  name: string
  data: unknown
}

type Listener = (event: PublishedEvent) => void

/** Receives events of every process of this installation and hands them to the streams of this one. */
export interface EventHub {
  subscribe(channel: string, listener: Listener): () => void
  close(): Promise<void>
}

/**
 * Announces a change to everybody who watches the channel, when (and only if) the transaction commits.
 * The payload says what changed, thinly; a longer one than 7.9 kB is a mistake of the caller and throws.
 * @source service §6.5, house.md §4
 */
export async function publish(tx: Tx, channel: string, name: string, data: unknown): Promise<void> {
  const payload = JSON.stringify([channel, name, data])
  if (Buffer.byteLength(payload) > largestPayloadBytes) throw new Error(`event ${name} on ${channel} is too long`)
  await sql`select pg_notify(${pgChannel}, ${payload})`.execute(tx)
}

const listenersPerSlice = 200

/**
 * Hands each event to all who listen to its channel, in the order of the events. When those are thousands, requests get
 * their turn in between.
 */
function deliverInSlices(listeners: ReadonlyMap<string, Set<Listener>>): (event: PublishedEvent) => void {
  const queue: { event: PublishedEvent; left: Iterator<Listener> }[] = []
  const work = () => {
    for (let count = 0; count < listenersPerSlice && queue[0]; ) {
      const { event, left } = queue[0]
      const { value: listener, done } = left.next()
      if (done) queue.shift()
      else if (listeners.get(event.channel)?.has(listener)) {
        listener(event)
        count += 1
      }
    }
    if (queue.length > 0) setImmediate(work)
  }
  return (event) => {
    queue.push({ event, left: [...(listeners.get(event.channel) ?? [])].values() })
    if (queue.length === 1) work()
  }
}

/** Listens with a connection of its own and reconnects for as long as it is open. */
export async function openEventHub(db: Database, log: Log): Promise<EventHub> {
  const listeners = new Map<string, Set<Listener>>()
  const deliver = deliverInSlices(listeners)
  const receive = (message: Notification) => {
    const [channel, name, data] = JSON.parse(message.payload ?? '[]') as [string, string, unknown]
    deliver({ channel, name, data })
  }
  const connection = await openSteadyConnection(db, {
    name: 'events',
    log,
    async prepare(client) {
      client.on('notification', receive)
      await client.query(`listen ${pgChannel}`)
    },
  })

  return {
    subscribe(channel, listener) {
      const set = listeners.get(channel) ?? new Set()
      listeners.set(channel, set.add(listener))
      return () => {
        set.delete(listener)
        if (set.size === 0) listeners.delete(channel)
      }
    },
    close: () => connection.close(),
  }
}
