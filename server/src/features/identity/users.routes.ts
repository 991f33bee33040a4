import { session, superuser } from '../../platform/http/access.ts'
import { requireMatch } from '../../platform/http/etag.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { userView } from './identity.present.ts'
import { PasswordChange, ProfileUpdate, UserRead, UserUpdate } from './identity.schema.ts'
import { changePassword, deleteUser, getSelf, getUser, updateProfile, updateUser } from './users.service.ts'

const badChange =
  'The address is taken (UPDATE_USER_EMAIL_ALREADY_EXISTS) or the password unfit (detail.code, detail.reason).'
const lastAdministrator = 'It is the last active global administrator.'

/** @source service §4.1 */
export const userRoutes: Operation[] = [
  operation({
    id: 'users.getMe',
    method: 'GET',
    path: '/users/me',
    summary: 'Who is signed in.',
    access: session,
    etag: true,
    responses: { 200: UserRead },
    handler: async (ctx) => userView(await getSelf(ctx)),
  }),
  operation({
    id: 'users.updateMe',
    method: 'PATCH',
    path: '/users/me',
    summary: 'Change the own name or telephone number.',
    access: session,
    audit: 'user.update_profile',
    body: ProfileUpdate,
    responses: { 200: UserRead },
    errors: { 412: 'It was changed since it was read (If-Match).' },
    handler: async (ctx, { body, request }) => {
      requireMatch(request, userView(await getSelf(ctx)))
      return userView(await updateProfile(ctx, body))
    },
  }),
  operation({
    id: 'users.changePassword',
    method: 'POST',
    path: '/users/me/password',
    summary: 'Change the own password; every other login ends.',
    access: session,
    audit: 'user.change_password',
    body: PasswordChange,
    responses: { 204: null },
    errors: { 400: 'The current password is wrong (PASSWORD_BAD_CURRENT) or the new one unfit.' },
    handler: (ctx, { body }) => changePassword(ctx, body.current_password, body.new_password),
  }),
  operation({
    id: 'users.get',
    method: 'GET',
    path: '/users/{id}',
    summary: 'One user.',
    access: superuser,
    etag: true,
    responses: { 200: UserRead },
    handler: async (ctx, { params }) => userView(await getUser(ctx, params.id!)),
  }),
  operation({
    id: 'users.update',
    method: 'PATCH',
    path: '/users/{id}',
    summary: 'Change a user.',
    access: superuser,
    audit: 'user.update',
    body: UserUpdate,
    responses: { 200: UserRead },
    errors: { 400: badChange, 409: lastAdministrator, 412: 'It was changed since it was read (If-Match).' },
    handler: async (ctx, { params, body, request }) => {
      requireMatch(request, userView(await getUser(ctx, params.id!)))
      return userView(await updateUser(ctx, params.id!, body))
    },
  }),
  operation({
    id: 'users.delete',
    method: 'DELETE',
    path: '/users/{id}',
    summary: 'Delete a user with all memberships and logins.',
    access: superuser,
    audit: 'user.delete',
    responses: { 204: null },
    errors: {
      400: 'It is your own account.',
      409: lastAdministrator,
      412: 'It was changed since it was read (If-Match).',
    },
    handler: async (ctx, { params, request }) => {
      if (request.headers['if-match']) requireMatch(request, userView(await getUser(ctx, params.id!)))
      await deleteUser(ctx, params.id!)
    },
  }),
]
