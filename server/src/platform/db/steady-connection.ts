import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from 'pg'
import type { Log } from '../log.ts'
import type { Database } from './database.ts'

export interface SteadyConnectionOptions {
  /** Makes a fresh connection useful: LISTEN, locks, handlers. What it throws counts as not connected. */
  prepare(client: Client): Promise<void>
  /** The connection is gone, and with it its locks; a new one is on its way. */
  lost?(): void
  /** What the log calls it. */
  name: string
  log: Log
}

export interface SteadyConnection {
  close(): Promise<void>
}

const longestPauseMs = 5000

/**
 * A connection of its own that comes back whenever it is lost, until it is closed. The first one must succeed.
 * There is never more than one attempt at a time.
 */
export async function openSteadyConnection(
  db: Pick<Database, 'listenConnection'>,
  options: SteadyConnectionOptions,
): Promise<SteadyConnection> {
  const closing = new AbortController()
  let current: Client | null = null

  const connect = async () => {
    const client = await db.listenConnection()
    let ended = false
    client.once('end', () => {
      ended = true
      if (current !== client) return
      current = null
      if (closing.signal.aborted) return
      options.lost?.()
      void reconnect()
    })
    try {
      await options.prepare(client)
      if (ended || closing.signal.aborted) throw new Error('the connection ended at once')
      current = client
    } catch (error) {
      await client.end().catch(() => undefined)
      throw error
    }
  }

  const reconnect = async () => {
    for (let pauseMs = 100; !closing.signal.aborted; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
      try {
        return await connect()
      } catch (error) {
        if (closing.signal.aborted) return
        options.log.warn({ err: error }, `${options.name}: no database connection; trying again`)
        await sleep(pauseMs, undefined, { signal: closing.signal }).catch(() => undefined)
      }
    }
  }

  await connect()
  return {
    async close() {
      closing.abort()
      await current?.end().catch(() => undefined)
    },
  }
}
