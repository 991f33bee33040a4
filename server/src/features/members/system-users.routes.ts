import type { SystemCtx } from '../../platform/context.ts'
import { superuser } from '../../platform/http/access.ts'
import { pageView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { pageOf } from '../../platform/schema.ts'
import { systemUserView } from './members.present.ts'
import {
  RemovedRole,
  RemovedUser,
  SystemCreateUserBody,
  SystemInviteBody,
  SystemRoleAssign,
  SystemUser,
  SystemUserQuery,
  TenantQuery,
  UserPath,
} from './members.schema.ts'
import type { AccountRow } from './members.store.ts'
import {
  assignSystemRole,
  createSystemUser,
  deleteSystemUser,
  disableSystemUser,
  enableSystemUser,
  inviteSystemUser,
  listSystemUsers,
  removeSystemRole,
  setSystemAdministrator,
} from './system-users.service.ts'

const ownAccount = 'It is your own account.'
const lastAdministrator = 'It is the last active global administrator.'
const noAccount = 'There is no account with this address.'

interface UserChange {
  id: string
  method: 'POST' | 'DELETE'
  path: string
  summary: string
  audit: string
  errors?: Record<number, string>
  change(ctx: SystemCtx, userId: string): Promise<AccountRow>
}

/** An operation that changes one account and answers with it. */
const onUser = ({ change, ...spec }: UserChange): Operation =>
  operation({
    ...spec,
    access: superuser,
    params: UserPath,
    responses: { 200: SystemUser },
    handler: async (ctx, { params }) => systemUserView(await change(ctx, params.user_id)),
  })

/** @source service §4.15, contract SY-21–SY-30 */
export const systemUserRoutes: Operation[] = [
  operation({
    id: 'systemUsers.list',
    method: 'GET',
    path: '/api/v1/system/users',
    summary: 'Every account with its roles in all tenants.',
    access: superuser,
    query: SystemUserQuery,
    responses: { 200: pageOf(SystemUser) },
    handler: async (ctx, { query }) => {
      const { items, total } = await listSystemUsers(ctx, query)
      return pageView(query, { items: items.map(systemUserView), total })
    },
  }),
  operation({
    id: 'systemUsers.invite',
    method: 'POST',
    path: '/api/v1/system/users/invite',
    summary: 'Give an existing account a role in a tenant.',
    access: superuser,
    audit: 'user.invite',
    body: SystemInviteBody,
    responses: { 200: SystemUser },
    errors: { 404: noAccount },
    handler: async (ctx, { body }) => systemUserView(await inviteSystemUser(ctx, body)),
  }),
  operation({
    id: 'systemUsers.create',
    method: 'POST',
    path: '/api/v1/system/users/create',
    summary: 'Make an account with a password and a role in a tenant.',
    access: superuser,
    audit: 'user.create',
    body: SystemCreateUserBody,
    responses: { 200: SystemUser },
    errors: {
      400: 'The password is unfit (REGISTER_INVALID_PASSWORD).',
      409: 'The address is taken (REGISTER_USER_ALREADY_EXISTS).',
    },
    handler: async (ctx, { body }) => systemUserView(await createSystemUser(ctx, body)),
  }),
  operation({
    id: 'systemUsers.assignRole',
    method: 'PATCH',
    path: '/api/v1/system/users/{user_id}/role',
    summary: 'Change or give a role in a tenant.',
    access: superuser,
    audit: 'user.assign_role',
    params: UserPath,
    body: SystemRoleAssign,
    responses: { 200: SystemUser },
    handler: async (ctx, { params, body }) => systemUserView(await assignSystemRole(ctx, params.user_id, body)),
  }),
  operation({
    id: 'systemUsers.removeRole',
    method: 'DELETE',
    path: '/api/v1/system/users/{user_id}/role',
    summary: 'End a membership in a tenant; the account stays.',
    access: superuser,
    audit: 'user.remove_role',
    params: UserPath,
    query: TenantQuery,
    responses: { 200: RemovedRole },
    handler: async (ctx, { params, query }) => {
      await removeSystemRole(ctx, params.user_id, query.tenant)
      return { user_id: params.user_id, tenant_code: query.tenant.toLowerCase() }
    },
  }),
  onUser({
    id: 'systemUsers.grantGlobalAdmin',
    method: 'POST',
    path: '/api/v1/system/users/{user_id}/global-admin',
    summary: 'Make the user a global administrator.',
    audit: 'user.grant_global_admin',
    change: (ctx, userId) => setSystemAdministrator(ctx, userId, true),
  }),
  onUser({
    id: 'systemUsers.revokeGlobalAdmin',
    method: 'DELETE',
    path: '/api/v1/system/users/{user_id}/global-admin',
    summary: 'The user is no longer a global administrator; roles in tenants stay.',
    audit: 'user.revoke_global_admin',
    errors: { 409: lastAdministrator },
    change: (ctx, userId) => setSystemAdministrator(ctx, userId, false),
  }),
  onUser({
    id: 'systemUsers.disable',
    method: 'POST',
    path: '/api/v1/system/users/{user_id}/disable',
    summary: 'End every login of the user and refuse new ones; memberships stay.',
    audit: 'user.disable',
    errors: { 400: ownAccount, 409: lastAdministrator },
    change: disableSystemUser,
  }),
  onUser({
    id: 'systemUsers.enable',
    method: 'POST',
    path: '/api/v1/system/users/{user_id}/enable',
    summary: 'Let the user sign in again.',
    audit: 'user.enable',
    change: enableSystemUser,
  }),
  operation({
    id: 'systemUsers.delete',
    method: 'DELETE',
    path: '/api/v1/system/users/{user_id}',
    summary: 'Delete the account with memberships, logins, tokens and notifications, for good.',
    access: superuser,
    audit: 'user.delete',
    params: UserPath,
    responses: { 200: RemovedUser },
    errors: { 400: ownAccount, 409: lastAdministrator },
    handler: async (ctx, { params }) => {
      const { id, email } = await deleteSystemUser(ctx, params.user_id)
      return { id, email }
    },
  }),
]
