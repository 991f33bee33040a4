import type { Tx } from '../../platform/db/transaction.ts'
import { badRequest, conflict, notFound } from '../../platform/errors.ts'
import {
  deleteExpiredSessions,
  deleteSessionsOf,
  deleteUser,
  findUser,
  findUserByEmail,
  insertUser,
  listActiveSuperusers,
  lockActiveSuperusers,
  type UserChange,
  type UserRow,
  updateUser,
} from './identity.store.ts'
import { checkPassword, hashPassword } from './passwords.ts'

/** What other features may know and do about accounts. */
export type Account = Omit<UserRow, 'passwordHash'>

export async function findAccountByEmail(tx: Tx, email: string): Promise<Account | null> {
  return (await findUserByEmail(tx, email)) ?? null
}

/** Throws `not_found`. */
export async function getAccount(tx: Tx, id: string): Promise<Account> {
  const user = await findUser(tx, id)
  if (!user) throw notFound('There is no such user.')
  return user
}

/** Hashes the password of an account to be; takes tens of milliseconds, so it belongs before the transaction. */
export function newPasswordHash(password: string, email: string): Promise<string> {
  checkPassword(password, email, 'REGISTER_INVALID_PASSWORD')
  return hashPassword(password)
}

/** Throws `conflict` when the address is taken, in any case of letters. @source contract B2.9 */
export async function createAccount(tx: Tx, email: string, passwordHash: string): Promise<Account> {
  const user = await insertUser(tx, { email, passwordHash })
  if (!user) throw conflict('Another account has this address.', { detail: 'REGISTER_USER_ALREADY_EXISTS' })
  return user
}

/** Ends every login of an account that is switched off; memberships stay. @source contract B2.12, SY-28 */
export async function setAccountActive(tx: Tx, id: string, isActive: boolean): Promise<Account> {
  if (!isActive) await keepAnAdministrator(tx, id)
  const account = await changeAccount(tx, id, { isActive })
  // After the change: a login that is under way either comes before it and ends here, or sees it.
  if (!isActive) await deleteSessionsOf(tx, id)
  return account
}

/** Throws `not_found`, also when the account was deleted just now. */
export async function changeAccount(tx: Tx, id: string, change: UserChange): Promise<UserRow> {
  const user = await updateUser(tx, id, change)
  if (!user) throw notFound('There is no such user.')
  return user
}

export async function setGlobalAdministrator(tx: Tx, id: string, isSuperuser: boolean): Promise<Account> {
  if (!isSuperuser) await keepAnAdministrator(tx, id)
  return changeAccount(tx, id, { isSuperuser })
}

/** Removes the account with everything that is the person's own; history keeps the address as text. @source contract B2.12 */
export async function removeAccount(tx: Tx, id: string): Promise<void> {
  await keepAnAdministrator(tx, id)
  await deleteUser(tx, id)
}

/** Throws `bad_request` when somebody would switch off or delete the account they are signed in with. @source service §7 */
export function refuseOwnAccount(actorId: string | undefined, id: string, verb: 'disable' | 'delete'): void {
  if (actorId === id.toLowerCase()) throw badRequest(`You cannot ${verb} your own account.`)
}

/** Throws `conflict` when without this user there would be no active global administrator. @source contract B2.12 */
export async function keepAnAdministrator(tx: Tx, withoutId: string): Promise<void> {
  const administrators = await lockActiveSuperusers(tx)
  if (administrators.length === 1 && administrators[0] === withoutId.toLowerCase()) {
    throw conflict('This is the last active global administrator; make somebody else one first.')
  }
}

/** Ids of the active global administrators. */
export const listAdministrators = (tx: Tx): Promise<string[]> => listActiveSuperusers(tx)

/** Forgets logins that have expired; returns how many. */
export const forgetExpiredLogins = (tx: Tx): Promise<number> => deleteExpiredSessions(tx)
