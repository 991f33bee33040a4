import { Type } from 'typebox'
import { type SourceKind, sourceKinds } from '../../adapters/external-sources/external-sources.ts'
import { pageQuery, searchQuery } from '../../platform/http/lists.ts'
import { anyObject, must, named, notBlank, nullable, oneOf, pageOf, timestamp, uuid } from '../../platform/schema.ts'

const bucketName = must(
  '^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$',
  'be 2 to 63 letters, digits, dots, hyphens and underscores, a letter or digit first',
)

const optional = Type.Optional
const text = (maxLength: number, description: string) =>
  Type.String({ minLength: 1, maxLength, ...notBlank, description })
const optionalText = (maxLength: number, description: string) => optional(nullable(text(maxLength, description)))

const name = text(200, 'Name, unique in the tenant.')
const kind = oneOf(sourceKinds, { description: 'What it is. A share that is mounted on the server is a directory.' })
const config = anyObject(
  's3: bucket, endpoint?, region?, prefix?, path_style?; http: url, of a manifest in JSON or of a folder page; ' +
    'directory: path, below a folder that the operator allowed.',
)
const credentials = optional(
  nullable(
    anyObject(
      's3: access_key_id, secret_access_key, session_token?; http: username and password, or token. ' +
        'Kept sealed and never shown again.',
    ),
  ),
)

/** What each kind must say, and what is kept of it. */
export const addressSchemas = {
  s3: {
    config: Type.Object({
      bucket: Type.String({ ...bucketName, description: 'Bucket.' }),
      endpoint: optionalText(500, 'Address of the service; Amazon’s own when absent.'),
      region: optional(
        nullable(
          Type.String({
            ...must('^[a-z0-9-]{1,50}$', 'be a region, as eu-west-1'),
            description: 'us-east-1 when absent.',
          }),
        ),
      ),
      prefix: optionalText(900, 'Folder within the bucket.'),
      path_style: optional(nullable(Type.Boolean({ description: 'Whether the bucket stands in the path.' }))),
    }),
    credentials: Type.Object({
      access_key_id: text(200, 'Key id.'),
      secret_access_key: text(500, 'Secret.'),
      session_token: optionalText(8000, 'Token of a temporary key.'),
    }),
  },
  http: {
    config: Type.Object({ url: text(2000, 'Address of the manifest or of the folder page.') }),
    credentials: Type.Object({
      username: optionalText(200, 'User.'),
      password: optionalText(500, 'Password.'),
      token: optionalText(8000, 'Bearer token, in place of user and password.'),
    }),
  },
  directory: {
    config: Type.Object({
      path: Type.String({ ...must('^/', 'begin with /'), maxLength: 1000, description: 'Absolute path.' }),
    }),
    credentials: Type.Object({}),
  },
} satisfies Record<SourceKind, object>

export const ExternalSourceCreate = named('ExternalSourceCreate', { name, kind, config, credentials })

export const ExternalSourceUpdate = named('ExternalSourceUpdate', {
  name: optional(nullable(name)),
  config: optional(nullable(config)),
  credentials,
})

const source = {
  id: uuid('External source.'),
  name,
  kind,
  config: anyObject('Where it is.'),
  has_credentials: Type.Boolean({ description: 'Whether credentials are kept for it.' }),
  created_by: Type.String({ description: 'E-mail of who made it.' }),
  created_at: timestamp('When it was made.'),
  updated_at: timestamp('When it was last changed.'),
}

export const ExternalSource = named('ExternalSource', source)

export const ExternalSourceDetail = named('ExternalSourceDetail', {
  ...source,
  datasets: Type.Array(
    Type.Object({
      id: Type.String({ description: 'Dataset.' }),
      name: Type.String({ description: 'Its name.' }),
      status: Type.String({ description: 'Its state.' }),
    }),
    { description: 'Datasets that follow it, newest first, at most two hundred.' },
  ),
})

export const ExternalSourcePage = pageOf(ExternalSource)
export const ExternalSourceQuery = Type.Object({ ...pageQuery, ...searchQuery })

export const SourceTest = named('SourceTest', {
  ok: Type.Boolean({ description: 'Whether it can be listed.' }),
  latency_ms: Type.Integer({ minimum: 0, description: 'Milliseconds until the first object, the end or the fault.' }),
  error: nullable(Type.String({ description: 'Why it can not.' })),
})

export const sourceParams = Type.Object({ source_id: uuid('External source.') })
