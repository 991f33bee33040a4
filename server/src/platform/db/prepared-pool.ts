import type { Socket } from 'node:net'
import type { PostgresPool, PostgresPoolClient } from 'kysely'
import type pg from 'pg'

/** A connection keeps what it prepared, some ten kilobytes each, until it has been idle and ends. */
const namesMax = 300
/** What a process asks less often, as most of what depends on what a user filters by, is not kept. */
const askedBefore = 5
const textsMax = 5000

/** Names of the statements that are asked again and again, alike in all connections of the process. */
export interface StatementNames {
  of(text: string): string | undefined
  /** Every text gets another name from now on, so that it is prepared anew. */
  renew(): void
}

export function statementNames(): StatementNames {
  const names = new Map<string, string>()
  const asked = new Map<string, number>()
  let next = 0
  return {
    of(text) {
      const known = names.get(text)
      if (known || names.size >= namesMax) return known
      const times = (asked.get(text) ?? 0) + 1
      if (times <= askedBefore) {
        if (asked.size >= textsMax) asked.clear()
        asked.set(text, times)
        return undefined
      }
      asked.delete(text)
      const name = `s${next++}`
      names.set(text, name)
      return name
    },
    renew: () => names.clear(),
  }
}

/** A newer release changed a table under a statement that returns all its columns; prepared anew it works. */
export function isStaleStatement(error: unknown): boolean {
  const { code, message } = error as { code?: string; message?: string }
  return code === '0A000' && message === 'cached plan must not change result type'
}

/**
 * The pool as Kysely uses it, with what is asked often prepared once per connection: to parse and plan a small
 * query takes PostgreSQL longer than to answer it. What is issued in one go, as `begin` with the first query, travels in
 * one packet.
 */
export function preparedPool(pool: pg.Pool): PostgresPool {
  const names = statementNames()
  const clients = new WeakMap<pg.PoolClient, PostgresPoolClient>()
  return {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      const client = await pool.connect()
      const known = clients.get(client)
      if (known) return known
      const prepared = preparedClient(client, names)
      clients.set(client, prepared)
      return prepared
    },
  }
}

function preparedClient(client: pg.PoolClient, names: StatementNames): PostgresPoolClient {
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection
  const query = async (text: string, values: unknown[]) => {
    if (!stream.writableCorked) {
      stream.cork()
      process.nextTick(() => stream.uncork())
    }
    const name = values.length > 0 ? names.of(text) : undefined
    if (!name) return client.query(text, values)
    try {
      return await client.query({ name, text, values })
    } catch (error) {
      if (isStaleStatement(error)) names.renew()
      throw error
    }
  }
  return { query: query as unknown as PostgresPoolClient['query'], release: () => client.release() }
}
