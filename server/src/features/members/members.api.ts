import type { Tx } from '../../platform/db/transaction.ts'
import { type Permission, permissionsOf, type Role, roleNames } from '../../platform/http/permissions.ts'
import { deleteMembership, listMemberIds, membersAmong, upsertMembership } from './members.store.ts'

/** Gives a user the role in the tenant, in place of the one held. */
export const grantRole = (tx: Tx, tenantId: string, userId: string, role: Role): Promise<void> =>
  upsertMembership(tx, tenantId, userId, role)

/** Ends a membership; false when there was none. */
export const removeRole = (tx: Tx, tenantId: string, userId: string): Promise<boolean> =>
  deleteMembership(tx, tenantId, userId)

/** Ids of the active members whose role holds the permission. */
export const listHolders = (tx: Tx, tenantId: string, permission: Permission): Promise<string[]> =>
  listMemberIds(
    tx,
    tenantId,
    roleNames.filter((role) => permissionsOf(role).has(permission)),
  )

/** Of these people those who may still see the tenant: active members, and global administrators. */
export const listInsiders = (tx: Tx, tenantId: string, userIds: readonly string[]): Promise<string[]> =>
  membersAmong(tx, tenantId, userIds)
