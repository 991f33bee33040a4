import { audited } from '../../platform/audit.ts'
import type { SystemCtx, UserCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { badRequest, notFound } from '../../platform/errors.ts'
import { isUuid } from '../../platform/ids.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { keepAnAdministrator, refuseOwnAccount, removeAccount } from './identity.api.ts'
import {
  updateUser as changeUser,
  deleteSessionsOf,
  findUser,
  findUserByEmail,
  type UserChange,
  type UserRow,
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
  return transaction(ctx, (tx) => changeUser(tx, ctx.actor.userId, change))
}

/** Every other login of the user ends. @source contract B2.11 */
export async function changePassword(ctx: UserCtx, current: string, wanted: string): Promise<void> {
  const { userId, sessionId, email } = ctx.actor
  const user = await getUser(ctx, userId)
  if (!(await verifyPassword(user.passwordHash, current))) {
    throw badRequest('The current password is wrong.', { detail: 'PASSWORD_BAD_CURRENT' })
  }
  checkPassword(wanted, email, 'UPDATE_USER_INVALID_PASSWORD')
  const passwordHash = await hashPassword(wanted)
  audited(ctx, email)
  await transaction(ctx, async (tx) => {
    await changeUser(tx, userId, { passwordHash })
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
    if (change.passwordHash || change.isActive === false) await deleteSessionsOf(tx, id)
    return changeUser(tx, id, change)
  })
}

/** @source contract B2.12 */
export async function deleteUser(ctx: SystemCtx, id: string): Promise<void> {
  refuseOwnAccount(ctx.actor?.userId, id, 'delete')
  const user = await getUser(ctx, id)
  audited(ctx, user.email)
  await transaction(ctx, (tx) => removeAccount(tx, user.id))
}
