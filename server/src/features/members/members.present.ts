import { permissions, roleNames, roles } from '../../platform/http/permissions.ts'
import type { AccountRow, MemberRow } from './members.store.ts'

const accountView = (user: Omit<AccountRow, 'roles'>) => ({
  id: user.id,
  email: user.email,
  full_name: user.fullName,
  phone: user.phone,
  is_active: user.isActive,
  is_superuser: user.isSuperuser,
  is_verified: user.isVerified,
  created_at: user.createdAt,
})

export const memberView = (member: MemberRow) => ({
  ...accountView(member),
  role: member.role,
  member_since: member.memberSince,
})

export const systemUserView = (user: AccountRow) => ({ ...accountView(user), roles: user.roles })

/** @source contract B3.3 */
export const roleMatrixView = {
  roles: roleNames.map((name) => ({ name, label: roles[name].label, permissions: roles[name].permissions })),
  permissions: Object.entries(permissions).map(([name, description]) => ({ name, description })),
}
