import { tenant } from '../../platform/http/access.ts'
import { pageView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { pageOf } from '../../platform/schema.ts'
import { memberView, roleMatrixView } from './members.present.ts'
import {
  CreateUserBody,
  InviteBody,
  Member,
  MemberQuery,
  OwnTenantQuery,
  RemovedRole,
  RoleAssign,
  RoleMatrix,
  UserPath,
} from './members.schema.ts'
import { assignRole, createMember, inviteMember, listTenantMembers, removeMember } from './members.service.ts'

/** @source service §4.13, contract TN-11–TN-16 */
export const memberRoutes: Operation[] = [
  operation({
    id: 'members.list',
    method: 'GET',
    path: '/api/v1/settings/users',
    summary: 'Members of the current tenant with their roles.',
    access: tenant('SETTINGS'),
    query: MemberQuery,
    responses: { 200: pageOf(Member) },
    handler: async (ctx, { query }) => {
      const { items, total } = await listTenantMembers(ctx, query)
      return pageView(query, { items: items.map(memberView), total })
    },
  }),
  operation({
    id: 'members.listRoles',
    method: 'GET',
    path: '/api/v1/settings/roles',
    summary: 'Roles and what each may do.',
    access: tenant('VIEW'),
    responses: { 200: RoleMatrix },
    handler: async () => roleMatrixView,
  }),
  operation({
    id: 'members.invite',
    method: 'POST',
    path: '/api/v1/settings/users/invite',
    summary: 'Give an existing account a role in the current tenant.',
    access: tenant('SETTINGS'),
    audit: 'member.invite',
    body: InviteBody,
    responses: { 200: Member },
    handler: async (ctx, { body }) => memberView(await inviteMember(ctx, body)),
  }),
  operation({
    id: 'members.create',
    method: 'POST',
    path: '/api/v1/settings/users/create',
    summary: 'Make an account with a password and a role in the current tenant.',
    access: tenant('SETTINGS'),
    audit: 'member.create',
    body: CreateUserBody,
    responses: { 200: Member },
    errors: {
      400: 'No tenant chosen, or the password is unfit (REGISTER_INVALID_PASSWORD).',
      409: 'The address is taken (REGISTER_USER_ALREADY_EXISTS).',
    },
    handler: async (ctx, { body }) => memberView(await createMember(ctx, body)),
  }),
  operation({
    id: 'members.assignRole',
    method: 'PATCH',
    path: '/api/v1/settings/users/{user_id}/role',
    summary: 'Change the role of a member, or make an account a member.',
    access: tenant('SETTINGS'),
    audit: 'member.assign_role',
    params: UserPath,
    body: RoleAssign,
    responses: { 200: Member },
    handler: async (ctx, { params, body }) => memberView(await assignRole(ctx, params.user_id, body)),
  }),
  operation({
    id: 'members.removeRole',
    method: 'DELETE',
    path: '/api/v1/settings/users/{user_id}/role',
    summary: 'End a membership; the account stays.',
    access: tenant('SETTINGS'),
    audit: 'member.remove',
    params: UserPath,
    query: OwnTenantQuery,
    responses: { 200: RemovedRole },
    handler: async (ctx, { params, query }) => {
      await removeMember(ctx, params.user_id, query.tenant)
      return { user_id: params.user_id, tenant_code: ctx.tenant.code }
    },
  }),
]
