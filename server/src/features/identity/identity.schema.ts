import { Type } from 'typebox'
import { emailAddress, named, nullable, oneOf, uuid } from '../../platform/schema.ts'

export const email = (description: string) => Type.String({ maxLength: 320, ...emailAddress, description })

/** @source contract B2.8 */
export const UserRead = named('UserRead', {
  id: uuid('Identifier of the user.'),
  email: Type.String({ description: 'Address the user signs in with.' }),
  full_name: nullable(Type.String({ description: 'Name for display.' })),
  phone: nullable(Type.String({ description: 'Telephone number.' })),
  is_active: Type.Boolean({ description: 'Whether the user may sign in.' }),
  is_superuser: Type.Boolean({ description: 'Whether the user is a global administrator.' }),
  is_verified: Type.Boolean({ description: 'Whether the address was verified.' }),
})

const fullName = Type.Optional(
  nullable(Type.String({ maxLength: 200, description: 'Name for display; null clears it.' })),
)
const phone = Type.Optional(nullable(Type.String({ maxLength: 50, description: 'Telephone number; null clears it.' })))
const flag = (description: string) => Type.Optional(nullable(Type.Boolean({ description })))

export const ProfileUpdate = named('ProfileUpdate', { full_name: fullName, phone })

export const UserUpdate = named('UserUpdate', {
  password: Type.Optional(
    nullable(Type.String({ maxLength: 1024, description: 'New password; ends every login of the user.' })),
  ),
  email: Type.Optional(nullable(email('New address; it counts as unverified.'))),
  is_active: flag('Whether the user may sign in.'),
  is_superuser: flag('Whether the user is a global administrator.'),
  is_verified: flag('Whether the address was verified.'),
  full_name: fullName,
  phone,
})

export const PasswordChange = named('PasswordChange', {
  current_password: Type.String({ maxLength: 1024, description: 'The password that is in force.' }),
  new_password: Type.String({ maxLength: 1024, description: 'The new one: 8 to 128 characters, not the address.' }),
})

export const LoginForm = named('LoginForm', {
  username: Type.String({ minLength: 1, maxLength: 320, description: 'E-mail address of the account.' }),
  password: Type.String({ maxLength: 1024, description: 'Password of the account.' }),
  grant_type: Type.Optional(oneOf(['password'], { description: 'As OAuth 2.0 clients send it; may be absent.' })),
})

export const BearerToken = named('BearerToken', {
  access_token: Type.String({ description: 'Send it as `Authorization: Bearer …`.' }),
  token_type: Type.String({ description: 'Always `bearer`.' }),
})
