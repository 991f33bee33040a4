import { Type } from 'typebox'
import { listOf, named, nullable, timestamp, uuid } from '../../platform/schema.ts'

const token = {
  id: uuid('Token.'),
  name: Type.String({ description: 'What it is for.' }),
  created_at: timestamp('When it was made.'),
  last_used_at: nullable(timestamp('When it last let somebody in, to the minute; null for never.')),
  expires_at: nullable(timestamp('When it ends; null for never.')),
  revoked_at: nullable(timestamp('When it was ended.')),
}

export const TokenOut = named('TrackerToken', token)
export const TokenList = listOf(TokenOut)

const trackingUri = Type.String({
  format: 'uri',
  description: 'MLFLOW_TRACKING_URI for clients.',
  examples: ['https://mlops.example/tracker'],
})

export const TokenCreated = named('TrackerTokenCreated', {
  ...token,
  token: Type.String({ description: 'The token itself, shown this once: MLFLOW_TRACKING_TOKEN.' }),
  tracking_uri: trackingUri,
})

export const TokenCreate = named('TrackerTokenCreate', {
  name: Type.Optional(nullable(Type.String({ maxLength: 200, description: 'What it is for.' }))),
  expires_in_days: Type.Optional(
    nullable(Type.Integer({ minimum: 1, maximum: 3650, description: 'Days until it ends; never when absent.' })),
  ),
})

export const TrackerInfo = named('TrackerInfo', {
  tracking_uri: trackingUri,
  version: Type.String({ description: 'Version of MLflow whose protocol is spoken.', examples: ['3.0.0'] }),
})
