import { sql } from 'kysely'
import type { Database } from '../../platform/db/database.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'

export async function findUserByEmail(tx: Tx, email: string) {
  return tx.selectFrom('users').selectAll().where(sql`lower(email)`, '=', email.trim().toLowerCase()).executeTakeFirst()
}

export async function findUser(tx: Tx, id: string) {
  return tx.selectFrom('users').selectAll().where('id', '=', id).executeTakeFirst()
}

export type UserRow = NonNullable<Awaited<ReturnType<typeof findUser>>>

export async function hasUsers(tx: Tx): Promise<boolean> {
  return (await tx.selectFrom('users').select('id').limit(1).executeTakeFirst()) !== undefined
}

export interface NewUser {
  email: string
  passwordHash: string
  fullName?: string | null
  isSuperuser?: boolean
  isVerified?: boolean
}

/** Null when the address is taken. */
export async function insertUser(tx: Tx, user: NewUser): Promise<UserRow | null> {
  const row = await tx
    .insertInto('users')
    .values({ id: newId(), ...user, email: user.email.trim() })
    .onConflict((oc) => oc.expression(sql`lower(email)`).doNothing())
    .returningAll()
    .executeTakeFirst()
  return row ?? null
}

export interface UserChange {
  email?: string
  passwordHash?: string
  fullName?: string | null
  phone?: string | null
  isActive?: boolean
  isSuperuser?: boolean
  isVerified?: boolean
}

/** Undefined when there is no such user. */
export async function updateUser(tx: Tx, id: string, change: UserChange): Promise<UserRow | undefined> {
  return tx
    .updateTable('users')
    .set({ ...change, updatedAt: sql`now()` })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()
}

/**
 * Holds the account as it was when its password was checked, until the transaction ends; false when it was changed,
 * switched off or deleted since. Whoever ends its logins waits, and then sees the new one.
 */
export async function lockProvenUser(tx: Tx, { id, passwordHash }: Pick<UserRow, 'id' | 'passwordHash'>) {
  const row = await tx
    .selectFrom('users')
    .select('id')
    .where('id', '=', id)
    .where('passwordHash', '=', passwordHash)
    .where('isActive', '=', true)
    .forShare()
    .executeTakeFirst()
  return row !== undefined
}

/** One of the bcrypt hashes that came from another system, the costliest; null when none is left. */
export async function findImportedHash(tx: Tx): Promise<string | null> {
  const { rows } = await sql<{ hash: string }>`
    select password_hash as hash from users where password_hash like '$2%'
    order by substr(password_hash, 5, 2) desc limit 1`.execute(tx)
  return rows[0]?.hash ?? null
}

/** Keeps the same password under a new hash, unless it was changed meanwhile. */
export async function replaceHash(tx: Tx, id: string, before: string, after: string): Promise<void> {
  await tx
    .updateTable('users')
    .set({ passwordHash: after })
    .where('id', '=', id)
    .where('passwordHash', '=', before)
    .execute()
}

export async function deleteUser(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('users').where('id', '=', id).execute()
}

/** Locks the row of every active global administrator, so that two requests can't each remove "the other" last one. */
export async function lockActiveSuperusers(tx: Tx): Promise<string[]> {
  const rows = await tx
    .selectFrom('users')
    .select('id')
    .where('isSuperuser', '=', true)
    .where('isActive', '=', true)
    .orderBy('id')
    .forUpdate()
    .execute()
  return rows.map((row) => row.id)
}

export async function listActiveSuperusers(tx: Tx): Promise<string[]> {
  const rows = await tx
    .selectFrom('users')
    .select('id')
    .where('isSuperuser', '=', true)
    .where('isActive', '=', true)
    .execute()
  return rows.map((row) => row.id)
}

export interface NewSession {
  userId: string
  expiresAt: Date | null
  ip: string
  userAgent: string | null
}

export async function insertSession(tx: Tx, session: NewSession): Promise<string> {
  const id = newId()
  await tx
    .insertInto('sessions')
    .values({ id, ...session })
    .execute()
  return id
}

export async function deleteSession(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('sessions').where('id', '=', id).execute()
}

/** Forgets logins that have expired; they let nobody in since. */
export async function deleteExpiredSessions(tx: Tx): Promise<number> {
  const result = await tx.deleteFrom('sessions').where('expiresAt', '<', sql<Date>`now()`).executeTakeFirst()
  return Number(result.numDeletedRows)
}

/** Ends every login of a user but the one that is kept. */
export async function deleteSessionsOf(tx: Tx, userId: string, keep: string | null = null): Promise<void> {
  let query = tx.deleteFrom('sessions').where('userId', '=', userId)
  if (keep) query = query.where('id', '!=', keep)
  await query.execute()
}

export interface LoginRow {
  expiresAt: Date | null
  userId: string
  email: string
  fullName: string | null
  isSuperuser: boolean
  isActive: boolean
  tenantId: string | null
  tenantCode: string | null
  tenantIsActive: boolean | null
  tenantFeatures: Record<string, boolean> | null
  role: string | null
}

/** A session, and the tenant that is asked for with it. */
export interface WantedLogin {
  sessionId: string
  tenantCode: string | null
}

/**
 * Everything that requests have to know about their callers, in one round trip; nothing for a session that is not there.
 */
export async function findLogins(db: Database, wanted: WantedLogin[]): Promise<(LoginRow | undefined)[]> {
  const sessions = wanted.map(({ sessionId }) => sessionId)
  const tenants = wanted.map(({ tenantCode }) => tenantCode)
  const { rows } = await sql<LoginRow & { place: number }>`
    select * from find_logins(${sessions}::uuid[], ${tenants}::text[])`.execute(db.kysely)
  const byPlace = new Map(rows.map((row) => [row.place, row]))
  return wanted.map((_, index) => byPlace.get(index + 1))
}

/** Counts a failed login and returns how many there were in the window, which lasts a minute from its first. */
export async function countFailure(tx: Tx, key: string): Promise<void> {
  await sql`
    insert into login_attempts (key, window_ends_at, failures) values (${key}, now() + interval '1 minute', 1)
    on conflict (key) do update set
      failures = case when login_attempts.window_ends_at < now() then 1 else login_attempts.failures + 1 end,
      window_ends_at = case when login_attempts.window_ends_at < now() then excluded.window_ends_at else login_attempts.window_ends_at end`.execute(
    tx,
  )
}

/** Failures in the current window and the seconds until it ends. */
export async function findFailures(tx: Tx, key: string): Promise<{ failures: number; seconds: number }> {
  const result = await sql<{ failures: number; seconds: number }>`
    select failures, ceil(extract(epoch from window_ends_at - now()))::int as seconds
    from login_attempts where key = ${key} and window_ends_at > now()`.execute(tx)
  return result.rows[0] ?? { failures: 0, seconds: 0 }
}

export async function forgetFailures(tx: Tx, key: string): Promise<void> {
  await sql`delete from login_attempts where key = ${key} or window_ends_at < now() - interval '1 hour'`.execute(tx)
}
