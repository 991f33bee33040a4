import { audited } from '../../platform/audit.ts'
import type { AnonymousCtx, UserCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { badRequest, tooManyRequests } from '../../platform/errors.ts'
import { read, transaction } from '../../platform/transaction.ts'
import {
  countFailure,
  deleteSession,
  findFailures,
  findImportedHash,
  findUserByEmail,
  forgetFailures,
  insertSession,
  lockProvenUser,
  replaceHash,
  type UserRow,
} from './identity.store.ts'
import { hashPassword, isOutdated, verifyPassword } from './passwords.ts'
import type { TokenSigner } from './tokens.ts'

// @source contract B2.2
const failuresPerMinute = 10

export interface LoginRequest {
  username: string
  password: string
  userAgent: string | null
}

export interface OpenedSession {
  token: string
  /** 0 for one that does not end. */
  lifetimeSeconds: number
}

/** How often a login looks again at an account that was changed while its password was checked. */
const looksMax = 3

/**
 * Checks e-mail and password and opens a session. One answer for every kind of failure; more than ten failures a
 * minute for the account from an address are put off.
 * @source contract B2.1–B2.3
 */
export async function logIn(ctx: AnonymousCtx, signer: TokenSigner, login: LoginRequest): Promise<OpenedSession> {
  const key = `${login.username.trim().toLowerCase()}|${ctx.ip}`
  for (let look = 0; look < looksMax; look++) {
    const user = await prove(ctx, login, key)
    if (!user) break
    const opened = await open(ctx, signer, login, user, key)
    if (opened) return opened
  }
  // Counting is no login, so it leaves no audit row.
  await transaction({ ...ctx, audit: null }, (tx) => countFailure(tx, key))
  throw badRequest('The e-mail address or the password is wrong.', { detail: 'LOGIN_BAD_CREDENTIALS' })
}

/** The active account that has this password; null for whatever is wrong, after the same work. */
async function prove(ctx: AnonymousCtx, login: LoginRequest, key: string): Promise<UserRow | null> {
  const { user, throttle, imported } = await read(ctx, async (tx) => ({
    throttle: await findFailures(tx, key),
    user: await findUserByEmail(tx, login.username),
    imported: await findImportedHash(tx),
  }))
  if (throttle.failures >= failuresPerMinute) {
    throw tooManyRequests('Too many failed logins; try again in a minute.', {
      headers: { 'retry-after': String(throttle.seconds) },
    })
  }
  const right = await verifyPassword(user?.passwordHash ?? null, login.password, imported)
  return right && user?.isActive ? user : null
}

/** Null when the account was changed, switched off or deleted since its password was checked. */
async function open(
  ctx: AnonymousCtx,
  signer: TokenSigner,
  login: LoginRequest,
  user: UserRow,
  key: string,
): Promise<OpenedSession | null> {
  const { id, passwordHash } = user
  const renewed = isOutdated(passwordHash) ? await hashPassword(login.password) : null
  audited(ctx, user.email)
  return transaction(ctx, async (tx) => {
    // Thrown, so that nothing is left of it, no audit row either.
    if (!(await lockProvenUser(tx, user))) throw changedMeanwhile
    await forgetFailures(tx, key)
    if (renewed) await replaceHash(tx, id, passwordHash, renewed)
    return openSession(tx, ctx, signer, user, login.userAgent)
  }).catch((error) => {
    if (error === changedMeanwhile) return null
    throw error
  })
}

const changedMeanwhile = new Error('the account was changed while its password was checked')

/** A login of somebody who has proven who they are. */
export async function openSession(
  tx: Tx,
  ctx: AnonymousCtx,
  signer: TokenSigner,
  user: { id: string },
  userAgent: string | null,
): Promise<OpenedSession> {
  const lifetimeSeconds = ctx.config.authTokenLifetime
  const expiresAt = lifetimeSeconds > 0 ? new Date(ctx.clock.now().getTime() + lifetimeSeconds * 1000) : null
  const session = { userId: user.id, expiresAt, ip: ctx.ip, userAgent: userAgent?.slice(0, 300) ?? null }
  const sessionId = await insertSession(tx, session)
  return { token: await signer.sign({ userId: user.id, sessionId, expiresAt }), lifetimeSeconds }
}

/** Ends the login of this request at once, wherever its token is. */
export async function logOut(ctx: UserCtx): Promise<void> {
  const { sessionId } = ctx.actor
  audited(ctx, ctx.actor.email)
  await transaction(ctx, async (tx) => {
    if (sessionId) await deleteSession(tx, sessionId)
  })
}
