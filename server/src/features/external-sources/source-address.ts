import { createHash } from 'node:crypto'
import type { TObject } from 'typebox'
import { type SourceAddress, SourceError, type SourceKind } from '../../adapters/external-sources/external-sources.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { invalid } from '../../platform/errors.ts'
import { validator } from '../../platform/http/validation.ts'
import { addressSchemas } from './external-sources.schema.ts'
import type { SourceRow } from './external-sources.store.ts'

/** From what a client sends to an address that can be opened, and back out of the database. */

type Fields = Record<string, unknown>

const validators = Object.fromEntries(
  Object.entries(addressSchemas).flatMap(([kind, { config, credentials }]) => [
    [`${kind}.config`, validator('body', wrapped('config', config))],
    [`${kind}.credentials`, validator('body', wrapped('credentials', credentials))],
  ]),
)

function wrapped(key: string, schema: TObject) {
  return { type: 'object', required: [key], properties: { [key]: schema } } as unknown as TObject
}

/** Only what the kind knows is kept: a secret in a wrong place is not shown to everybody. */
function known(schema: TObject, given: Fields): Fields {
  const fields = Object.keys(schema.properties).filter((key) => given[key] !== undefined && given[key] !== null)
  return Object.fromEntries(fields.map((key) => [key, given[key]]))
}

/** The config as it is kept. Throws a 422 that names the field. */
export function checkedConfig(kind: SourceKind, config: Fields): Fields {
  validators[`${kind}.config`]!({ config })
  return known(addressSchemas[kind].config, config)
}

/** The credentials as they are sealed, or null. Throws a 422 that names the field. */
export function checkedCredentials(kind: SourceKind, credentials: Fields | null): Fields | null {
  if (!credentials) return null
  const fault = (msg: string) => invalid({ loc: ['body', 'credentials'], msg, type: 'value_error' })
  if (kind === 'directory') throw fault('a directory takes none')
  validators[`${kind}.credentials`]!({ credentials })
  const kept = known(addressSchemas[kind].credentials, credentials)
  const one = kept.token ? !kept.username && !kept.password : kept.username && kept.password
  if (kind === 'http' && !one) throw fault('give username and password, or token')
  return kept
}

/** Throws a 422 with the reason when the platform would never read from there. */
export async function vetAddress(ctx: TenantCtx, address: SourceAddress): Promise<void> {
  try {
    await ctx.adapters.externalSources.vet(address)
  } catch (error) {
    if (!(error instanceof SourceError)) throw error
    const field = { s3: 'endpoint', http: 'url', directory: 'path' }[address.kind]
    throw invalid({ loc: ['body', 'config', field], msg: error.message, type: 'value_error' })
  }
}

export const addressOf = (kind: SourceKind, config: Fields, credentials: Fields | null): SourceAddress =>
  ({ kind, config, credentials }) as unknown as SourceAddress

const purposeOf = (tenantId: string, sourceId: string) => `external-source:${tenantId}:${sourceId}`

export const sealCredentials = (ctx: TenantCtx, sourceId: string, credentials: Fields | null): string | null =>
  credentials && ctx.secrets.seal(credentials, purposeOf(ctx.tenant.id, sourceId))

/** A source of the database as it can be opened. */
export function storedAddress(ctx: TenantCtx, { id, kind, config, credentials }: SourceRow): SourceAddress {
  const secret = credentials ? ctx.secrets.open<Fields>(credentials, purposeOf(ctx.tenant.id, id)) : null
  return addressOf(kind, config, secret)
}

/** Whom credentials are shown to: as long as it stays the same, they may stay, too. */
export function audienceOf(kind: SourceKind, config: Fields): string {
  if (kind === 's3') return String(config.endpoint ?? 'aws')
  return kind === 'http' ? new URL(String(config.url)).origin : ''
}

/** Same bytes under the same name in the same place: versions of objects can be compared. */
export const placeOf = ({ id, config }: SourceRow): string =>
  createHash('sha256')
    .update(JSON.stringify([id, config]))
    .digest('base64url')
    .slice(0, 22)
