import { Type } from 'typebox'
import { pageQuery } from '../../platform/http/lists.ts'
import { anyJson, named, nullable, oneOf, timestamp, uuid } from '../../platform/schema.ts'

/** @source contract B12.8 */
export const AuditEvent = named('AuditEvent', {
  id: uuid('Identifier of the entry.'),
  at: timestamp('When it happened.'),
  action: Type.String({ description: 'What was done, `noun.verb`.' }),
  outcome: Type.String({ description: 'success or denied.' }),
  actor: nullable(Type.String({ description: 'Address of who did it; null for the platform itself.' })),
  actor_id: nullable(uuid('Identifier of who did it.')),
  target: nullable(Type.String({ description: 'What it was done to.' })),
  tenant: nullable(Type.String({ description: 'Code of the tenant; null for entries of the system.' })),
  ip: nullable(Type.String({ description: 'Address the request came from.' })),
  request_id: nullable(Type.String({ description: 'Request it came with, as in X-Request-ID and the log.' })),
  detail: anyJson('What changed; never a secret.'),
  seq: nullable(
    Type.Integer({ minimum: 1, description: 'Place in the chain of sealed entries; null until it is sealed.' }),
  ),
})

const text = (description: string) => Type.Optional(Type.String({ maxLength: 320, description }))

const filters = {
  action: text('Beginning of the action, such as `user.`.'),
  since: text('First moment: an RFC 3339 time, or a window back from now such as 24h or 7d.'),
  until: text('First moment after the window, RFC 3339.'),
  actor: text("Part of the actor's address or name."),
  target: text('Part of the target.'),
  format: Type.Optional(
    oneOf(['json', 'csv', 'ndjson'], {
      default: 'json',
      description: 'csv and ndjson stream every matching entry, whatever the page.',
    }),
  ),
  ...pageQuery,
}

export const TenantAuditQuery = Type.Object({
  ...filters,
  tenant: text('Code of the current tenant; any other is refused.'),
})
export const SystemAuditQuery = Type.Object({ ...filters, tenant: text('Only entries of the tenant with this code.') })
export const ActionsQuery = Type.Object({ tenant: text('Only entries of the tenant with this code.') })

export const ActionList = Type.Object({
  items: Type.Array(Type.String(), { description: 'Distinct actions, sorted.' }),
  total: Type.Integer({ minimum: 0, description: 'Number of items.' }),
})
