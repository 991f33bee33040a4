import { audited } from '../../platform/audit.ts'
import type { SystemCtx, UserCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { badRequest, notFound, unauthorized } from '../../platform/errors.ts'
import { isUuid } from '../../platform/ids.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { changeAccount, keepAnAdministrator, refuseOwnAccount, removeAccount } from './identity.api.ts'
import {
  deleteSessionsOf,
  findUser,
  findUserByEmail,
  type UserChange,
  type UserRow,
  updateUser as updateRow,
} from './identity.store.ts'
import { checkPassword, hashPassword, verifyPassword } from './passwords.ts'

/** Throws `not_found`, also for what is no id at all. @source contract B1.4 */
export function getUser(ctx: SystemCtx | UserCtx, id: string): Promise<UserRow> {
  return read(ctx, (tx) => loadUser(tx, id))
}

export async function loadUser(tx: Tx, id: string): Promise<UserRow> {
  const user = isUuid(id) ? await findUser(tx, id) : undefined
  if (!user) throw notFound('There is no such user.')
  return user
}

/** Who is signed in. Throws `unauthorized` when the account was deleted since the request was let in. */
export const getSelf = (ctx: UserCtx): Promise<UserRow> =>
  read(ctx, async (tx) => (await findUser(tx, ctx.actor.userId)) ?? refuseGone())

const refuseGone = (): never => {
  throw unauthorized(undefined, { headers: { 'www-authenticate': 'Bearer' } })
}

export interface Profile {
  full_name?: string | null
  phone?: string | null
}

/** Only the keys that are present change; null clears. @source contract B2.8 */
export function updateProfile(ctx: UserCtx, profile: Profile): Promise<UserRow> {
  const change: UserChange = {}
  if (profile.full_name !== undefined) change.fullName = profile.full_name
  if (profile.phone !== undefined) change.phone = profile.phone
  audited(ctx, ctx.actor.email, { changed: Object.keys(profile) })
  return transaction(ctx, async (tx) => (await updateRow(tx, ctx.actor.userId, change)) ?? refuseGone())
}

/** Every other login of the user ends. @source contract B2.11 */
export async function changePassword(ctx: UserCtx, current: string, wanted: string): Promise<void> {
  const { userId, sessionId, email } = ctx.actor
  const user = await getSelf(ctx)
  if (!(await verifyPassword(user.passwordHash, current))) {
    throw badRequest('The current password is wrong.', { detail: 'PASSWORD_BAD_CURRENT' })
  }
  checkPassword(wanted, email, 'UPDATE_USER_INVALID_PASSWORD')
  const passwordHash = await hashPassword(wanted)
  audited(ctx, email)
  await transaction(ctx, async (tx) => {
    if (!(await updateRow(tx, userId, { passwordHash }))) refuseGone()
    await deleteSessionsOf(tx, userId, sessionId)
  })
}

export interface UserPatch extends Profile {
  password?: string | null
  email?: string | null
  is_active?: boolean | null
  is_superuser?: boolean | null
  is_verified?: boolean | null
}

/** What an administrator may change of anybody. @source service §4.1, contract B2.8–B2.10 */
export async function updateUser(ctx: SystemCtx, id: string, patch: UserPatch): Promise<UserRow> {
  const user = await getUser(ctx, id)
  if (patch.password) checkPassword(patch.password, patch.email ?? user.email, 'UPDATE_USER_INVALID_PASSWORD')
  const change: UserChange = patch.password ? { passwordHash: await hashPassword(patch.password) } : {}
  if (patch.full_name !== undefined) change.fullName = patch.full_name
  if (patch.phone !== undefined) change.phone = patch.phone
  if (patch.email && patch.email !== user.email) Object.assign(change, { email: patch.email, isVerified: false })
  if (typeof patch.is_verified === 'boolean') change.isVerified = patch.is_verified
  if (typeof patch.is_active === 'boolean') change.isActive = patch.is_active
  if (typeof patch.is_superuser === 'boolean') change.isSuperuser = patch.is_superuser
  audited(ctx, user.email, { changed: Object.keys(change) })
  return transaction(ctx, async (tx) => {
    if (change.isActive === false || change.isSuperuser === false) await keepAnAdministrator(tx, id)
    if (change.email) {
      const other = await findUserByEmail(tx, change.email)
      if (other && other.id !== id)
        throw badRequest('Another account has this address.', { detail: 'UPDATE_USER_EMAIL_ALREADY_EXISTS' })
    }
    const changed = await changeAccount(tx, id, change)
    // After the change: a login that is under way either comes before it and ends here, or sees it.
    if (change.passwordHash || change.isActive === false) await deleteSessionsOf(tx, id)
    return changed
  })
}

/** @source contract B2.12 */
export async function deleteUser(ctx: SystemCtx, id: string): Promise<void> {
  refuseOwnAccount(ctx.actor?.userId, id, 'delete')
  const user = await getUser(ctx, id)
  audited(ctx, user.email)
  await transaction(ctx, (tx) => removeAccount(tx, user.id))
}
