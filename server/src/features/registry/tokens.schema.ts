import { Type } from 'typebox'
import { listOf, named, nullable, timestamp, uuid } from '../../platform/schema.ts'

export const TokenCreate = named('RegistryTokenCreate', {
  name: Type.Optional(
    nullable(Type.String({ maxLength: 100, description: 'What it is for; only for people to recognise it by.' })),
  ),
  expires_in_days: Type.Optional(
    nullable(
      Type.Integer({ minimum: 1, maximum: 3650, description: 'Days until it expires; never when null or absent.' }),
    ),
  ),
})

export const TokenCreated = named(
  'RegistryTokenCreated',
  {
    id: uuid('Token.'),
    name: Type.String({ description: 'As given, else its public part.' }),
    token: Type.String({ description: 'The secret: the password for docker login. It is never shown again.' }),
    username: Type.String({ description: 'User name to sign in with; any other works too.' }),
    registry: Type.String({ description: 'Host to sign in to.' }),
    expires_at: nullable(timestamp('When it expires; null for never.')),
  },
  'The one time the secret is shown.',
)

export const RegistryToken = named('RegistryToken', {
  id: uuid('Token.'),
  name: Type.String({ description: 'What it is for.' }),
  prefix: Type.String({ description: 'Public part of the token, mlr_ and ten characters.' }),
  owner: Type.String({ description: 'E-mail of the owner, whose role it acts with.' }),
  status: Type.Unsafe<'active' | 'expired' | 'revoked'>({
    type: 'string',
    enum: ['active', 'expired', 'revoked'],
    description: 'Only an active token is let in.',
  }),
  created_at: timestamp('When it was made.'),
  expires_at: nullable(timestamp('When it expires; null for never.')),
  last_used_at: nullable(timestamp('Last use, to the minute; null when it was never used.')),
  revoked_at: nullable(timestamp('When it was revoked.')),
})

export const RegistryTokenList = listOf(RegistryToken)
