import { Type } from 'typebox'
import { listQuery } from '../../platform/http/lists.ts'
import { roleNames } from '../../platform/http/permissions.ts'
import { emailAddress, named, nullable, oneOf, timestamp, uuid } from '../../platform/schema.ts'

const email = Type.String({
  maxLength: 320,
  ...emailAddress,
  description: 'E-mail address of the account, in any case of letters.',
})
const password = Type.String({ maxLength: 1024, description: 'Password of the new account: 8 to 128 characters.' })
const role = oneOf(roleNames, { description: 'Role in the tenant.' })
const ownTenant = Type.Optional(
  nullable(Type.String({ maxLength: 63, description: 'Code of the current tenant; any other is refused.' })),
)
const anyTenant = Type.String({ minLength: 1, maxLength: 63, description: 'Code of the tenant.' })

/** @source service §2.7, contract B2.13 */
export const InviteBody = named('InviteBody', { email, tenant_code: ownTenant, role })
export const CreateUserBody = named('CreateUserBody', { email, password, tenant_code: ownTenant, role })
export const RoleAssign = named('RoleAssign', { tenant_code: ownTenant, role })
export const SystemInviteBody = named('SystemInviteBody', { email, tenant_code: anyTenant, role })
export const SystemCreateUserBody = named('SystemCreateUserBody', { email, password, tenant_code: anyTenant, role })
export const SystemRoleAssign = named('SystemRoleAssign', { tenant_code: anyTenant, role })

const account = {
  id: uuid('Identifier of the user.'),
  email: Type.String({ description: 'Address the user signs in with.' }),
  full_name: nullable(Type.String({ description: 'Name for display.' })),
  phone: nullable(Type.String({ description: 'Telephone number.' })),
  is_active: Type.Boolean({ description: 'Whether the user may sign in.' }),
  is_superuser: Type.Boolean({ description: 'Whether the user is a global administrator.' }),
  is_verified: Type.Boolean({ description: 'Whether the address was verified.' }),
  created_at: timestamp('When the account was made.'),
}
const heldRole = Type.String({ description: 'Role held, one of those of GET /api/v1/settings/roles.' })

export const Member = named('Member', {
  ...account,
  role: heldRole,
  member_since: timestamp('When the user joined the tenant.'),
})

export const SystemUser = named('SystemUser', {
  ...account,
  roles: Type.Array(
    Type.Object({
      tenant_code: Type.String({ description: 'Code of the tenant.' }),
      tenant_name: Type.String({ description: 'Name of the tenant.' }),
      role: heldRole,
    }),
    { description: 'Role in every tenant the user belongs to, by tenant code.' },
  ),
})

export const RemovedRole = named('RemovedRole', {
  user_id: uuid('Identifier of the user.'),
  tenant_code: Type.String({ description: 'Tenant the user no longer belongs to.' }),
})

export const RemovedUser = named('RemovedUser', {
  id: uuid('Identifier the user had.'),
  email: Type.String({ description: 'Address the user signed in with.' }),
})

export const RoleMatrix = named('RoleMatrix', {
  roles: Type.Array(
    Type.Object({
      name: Type.String({ description: 'Name to grant.' }),
      label: Type.String({ description: 'Name for display.' }),
      permissions: Type.Array(Type.String(), { description: 'Everything the role may do.' }),
    }),
    { description: 'The ladder of roles, each holding all that the one before it holds.' },
  ),
  permissions: Type.Array(
    Type.Object({
      name: Type.String({ description: 'Name of the permission.' }),
      description: Type.String({ description: 'What it allows.' }),
    }),
    { description: 'Every permission there is.' },
  ),
})

/** @source contract B4.3 */
export const userSorts = { created_at: 'time', email: 'text', name: 'text' } as const
export const MemberQuery = listQuery(userSorts, {})
export const SystemUserQuery = listQuery(userSorts, {
  tenant: Type.Optional(Type.String({ maxLength: 63, description: 'Only members of the tenant with this code.' })),
})
export const OwnTenantQuery = Type.Object({
  tenant: Type.Optional(Type.String({ maxLength: 63, description: 'Code of the current tenant.' })),
})
export const TenantQuery = Type.Object({ tenant: anyTenant })
export const UserPath = Type.Object({ user_id: uuid('Identifier of the user.') })
