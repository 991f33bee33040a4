import { setTimeout as sleep } from 'node:timers/promises'
import { CompiledQuery, type Kysely } from 'kysely'
import type { DB } from './database.generated.ts'
import type { Database } from './database.ts'

/** For whom a transaction works: one tenant, or the platform itself across all tenants. */
export type Scope = { tenantId: string } | 'system'

declare const scoped: unique symbol

/** What queries run on inside `transaction()`. It cannot open another transaction, and `Database` cannot stand in for it. */
export type Tx = Omit<Kysely<DB>, 'transaction' | 'startTransaction' | 'connection' | 'destroy'> & {
  readonly [scoped]: true
}

const attemptsMax = 4
// In a transaction that failed and went on all the same, COMMIT alone would quietly roll back and report success.
const commit = CompiledQuery.raw('select; commit')
const rollback = CompiledQuery.raw('rollback')
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

function beginStatement(scope: Scope): CompiledQuery {
  if (scope === 'system') return CompiledQuery.raw("begin; set local app.system = 'on'")
  // SET takes no parameters, so the value is checked instead.
  if (!uuid.test(scope.tenantId)) throw new TypeError('the scope of a transaction needs the UUID of a tenant')
  return CompiledQuery.raw(`begin; set local app.tenant_id = '${scope.tenantId}'`)
}

/** Serialization failure or deadlock: nothing happened, and doing it again may work. */
function isTransient(error: unknown): boolean {
  const { code } = error as { code?: string }
  return code === '40001' || code === '40P01'
}

async function attempt<T>(kysely: Kysely<DB>, begin: CompiledQuery, work: (tx: Tx) => Promise<T>): Promise<T> {
  return kysely.connection().execute(async (connection) => {
    // Begin and scope travel as one simple query, never one without the other, and the first query right behind it.
    const begun = connection.executeQuery(begin)
    begun.catch(() => {})
    try {
      const result = await work(connection as unknown as Tx)
      await begun
      await connection.executeQuery(commit)
      return result
    } catch (error) {
      // A connection too broken to roll back is dropped by the pool; the first error is the one to tell.
      await connection.executeQuery(rollback).catch(() => {})
      throw error
    }
  })
}

/**
 * Runs `work` in one transaction for one tenant or for the system, and rolls back when it throws.
 *
 * Row-level security shows and takes the rows of that scope only. After a serialization failure or a deadlock the whole
 * of `work` runs again, at most three times: it must have no effect outside the database.
 */
export async function transaction<T>(
  db: Pick<Database, 'kysely'>,
  scope: Scope,
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  const begin = beginStatement(scope)
  for (let tries = 1; ; tries++) {
    try {
      return await attempt(db.kysely, begin, work)
    } catch (error) {
      if (tries === attemptsMax || !isTransient(error)) throw error
      await sleep(Math.random() * 20 * 2 ** tries)
    }
  }
}
