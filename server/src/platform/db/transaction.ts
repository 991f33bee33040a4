import { setTimeout as sleep } from 'node:timers/promises'
import { CompiledQuery, type Kysely } from 'kysely'
import type { DB } from './database.generated.ts'
import type { Database } from './database.ts'
import { isStaleStatement } from './prepared-pool.ts'

/** For whom a transaction works: one tenant, or the platform itself across all tenants. */
export type Scope = { tenantId: string } | 'system'

type Queries = Pick<Database, 'kysely'>
type QueryExecutor = Pick<Kysely<DB>, 'executeQuery'>

declare const scoped: unique symbol

/** What queries run on inside `transaction()`. It cannot open another transaction, and `Database` cannot stand in for it. */
export type Tx = Omit<Kysely<DB>, 'transaction' | 'startTransaction' | 'connection' | 'destroy'> & {
  readonly [scoped]: true
}

const attemptsMax = 4
// In a transaction that failed and went on all the same, COMMIT alone would quietly roll back and report success.
const commit = CompiledQuery.raw('select; commit')
const endOfRead = CompiledQuery.raw('commit')
const rollback = CompiledQuery.raw('rollback')
// @source PostgreSQL, Appendix A
const serializationFailure = '40001'
const deadlock = '40P01'
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

function beginStatement(scope: Scope, mode: '' | ' read only'): CompiledQuery {
  if (scope === 'system') return CompiledQuery.raw(`begin${mode}; set local app.system = 'on'`)
  // SET takes no parameters, so the value is checked instead.
  if (!uuid.test(scope.tenantId)) throw new TypeError('the scope of a transaction needs the UUID of a tenant')
  return CompiledQuery.raw(`begin${mode}; set local app.tenant_id = '${scope.tenantId}'`)
}

/** Nothing happened, and doing it again may work. */
function isTransient(error: unknown): boolean {
  const { code } = error as { code?: string }
  return code === serializationFailure || code === deadlock || isStaleStatement(error)
}

/** One attempt; `end` says what becomes of the transaction when the work is done. */
async function attempt<T>(
  kysely: Kysely<DB>,
  begin: CompiledQuery,
  work: (tx: Tx) => Promise<T>,
  end: (connection: QueryExecutor) => Promise<unknown> | undefined,
): Promise<T> {
  return kysely.connection().execute(async (connection) => {
    // Begin and scope travel as one simple query, never one without the other, and the first query right behind it.
    const begun = connection.executeQuery(begin)
    begun.catch(() => {})
    try {
      const result = await work(connection as unknown as Tx)
      await begun
      await end(connection)
      return result
    } catch (error) {
      // A connection too broken to roll back is dropped by the pool; the first error is the one to tell.
      await connection.executeQuery(rollback).catch(() => {})
      throw error
    }
  })
}

/** Runs `work` again after a serialization failure or a deadlock, at most three times. */
async function attempts<T>(once: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await once()
    } catch (error) {
      if (tries === attemptsMax || !isTransient(error)) throw error
      await sleep(Math.random() * 20 * 2 ** tries)
    }
  }
}

/**
 * Runs `work` in one transaction for one tenant or for the system, and rolls back when it throws.
 *
 * Row-level security shows and takes the rows of that scope only. After a serialization failure or a deadlock the whole
 * of `work` runs again, at most three times: it must have no effect outside the database.
 */
export async function transaction<T>(db: Queries, scope: Scope, work: (tx: Tx) => Promise<T>): Promise<T> {
  const begin = beginStatement(scope, '')
  return attempts(() => attempt(db.kysely, begin, work, (connection) => connection.executeQuery(commit)))
}

/** As `transaction()`, for work that only looks: the database refuses changes, and nobody waits for the end. */
export async function readTransaction<T>(db: Queries, scope: Scope, work: (tx: Tx) => Promise<T>): Promise<T> {
  const begin = beginStatement(scope, ' read only')
  return attempts(() =>
    attempt(db.kysely, begin, work, (connection) => {
      // The connection is free for the next transaction at once, which queues up behind; if this fails, it is broken.
      connection.executeQuery(endOfRead).catch(() => {})
      return undefined
    }),
  )
}
