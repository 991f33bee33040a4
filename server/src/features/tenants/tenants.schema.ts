import { Type } from 'typebox'
import { must, named, notBlank, nullable, timestamp, uuid } from '../../platform/schema.ts'
import { retentionDefaults } from './retention.ts'

const name = Type.String({ minLength: 1, maxLength: 200, ...notBlank, description: 'Name for display.' })
const kpiTargets = Type.Record(Type.String({ minLength: 1, maxLength: 100 }), Type.Number(), {
  maxProperties: 100,
  description: 'Target per key figure, such as {"accuracy": 0.9}.',
})
const features = Type.Record(Type.String({ maxLength: 100 }), Type.Boolean(), {
  maxProperties: 100,
  description: 'Switches by key of GET /api/v1/settings/features; what is absent keeps its default.',
})
const retentionKeys = Object.entries(retentionDefaults).map(
  ([key, days]) =>
    [
      key,
      Type.Optional(
        Type.Integer({ minimum: 0, maximum: 36_500, description: `Days; 0 keeps them for ever. ${days} when absent.` }),
      ),
    ] as const,
)
const retention = Type.Object(Object.fromEntries(retentionKeys), {
  additionalProperties: false,
  description: 'Days each kind of record is kept.',
})
const SharedDefault = named('SharedDefault', {
  kind: Type.String({ maxLength: 50, description: 'Family of the shared variant: runtimes, stagers or builders.' }),
  framework: nullable(Type.String({ maxLength: 100, description: 'Framework it is the default for.' })),
  variant_id: uuid('Shared variant the tenant starts with.'),
})

/** @source service §2.7, contract B3.1 */
export const TenantCreate = named('TenantCreate', {
  code: Type.String({
    ...must(
      '^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$',
      'be at most 63 letters, digits and hyphens, no hyphen at either end',
    ),
    description: 'Short name in addresses and image names; stored in lower case, never changed.',
  }),
  name,
  kpi_targets: Type.Optional(kpiTargets),
  retention: Type.Optional(retention),
  features: Type.Optional(features),
  shared_defaults: Type.Optional(
    Type.Array(SharedDefault, { maxItems: 200, description: 'Shared variants to begin with.' }),
  ),
})

export const TenantUpdate = named('TenantUpdate', {
  name: Type.Optional(nullable(name)),
  kpi_targets: Type.Optional(nullable(kpiTargets)),
  retention: Type.Optional(nullable(retention)),
  is_active: Type.Optional(nullable(Type.Boolean({ description: 'Whether members, devices and tokens may use it.' }))),
  features: Type.Optional(nullable(features)),
})

export const TenantOut = named('TenantOut', {
  id: uuid('Identifier of the tenant.'),
  code: Type.String({ description: 'Short name in addresses and image names.' }),
  name: Type.String({ description: 'Name for display.' }),
  is_active: Type.Boolean({ description: 'Whether members, devices and tokens may use it.' }),
  kpi_targets: Type.Record(Type.String(), Type.Number(), { description: 'Target per key figure.' }),
  retention: Type.Record(Type.String(), Type.Integer(), { description: 'Days each kind is kept; 0 for ever.' }),
  features: Type.Record(Type.String(), Type.Boolean(), { description: 'Every toggleable feature, on or off.' }),
  shared_defaults: Type.Array(SharedDefault, { description: 'Shared variants it began with.' }),
  members: Type.Integer({ minimum: 0, description: 'Number of members.' }),
  deletion_id: nullable(uuid('Its deletion, when it is being deleted.')),
  created_at: timestamp('When it was made.'),
  updated_at: timestamp('When it was last changed.'),
})

export const AccessibleTenant = named('AccessibleTenant', {
  id: uuid('Identifier of the tenant.'),
  code: Type.String({ description: 'What goes into X-Tenant.' }),
  name: Type.String({ description: 'Name for display.' }),
  is_active: Type.Boolean({ description: 'False only for global administrators: others do not see it then.' }),
  role: Type.String({ description: 'Role of the caller there; ADMIN for global administrators.' }),
  permissions: Type.Array(Type.String(), { description: 'What the caller may do there.' }),
  features: Type.Record(Type.String(), Type.Boolean(), { description: 'Every toggleable feature, on or off.' }),
})

export const FeatureToggle = named('FeatureToggle', {
  key: Type.String({ description: 'Key in the features of a tenant.' }),
  label: Type.String({ description: 'Name for display.' }),
  description: Type.String({ description: 'What goes when it is switched off.' }),
  default: Type.Boolean({ description: 'Whether a tenant has it when nothing is said.' }),
})

export const TenantPath = Type.Object({ tenant_id: uuid('Identifier of the tenant.') })
export const DeletionPath = Type.Object({ deletion_id: uuid('Identifier of the deletion.') })

export const TenantDeleteRequest = named('TenantDeleteRequest', {
  confirm_code: Type.String({ maxLength: 63, description: 'The code of the tenant, typed again.' }),
})

const counts = Type.Record(Type.String(), Type.Integer(), {
  description: 'What there is of each kind; kinds without anything are left out.',
})

export const DeletionPreview = named('DeletionPreview', {
  tenant_id: uuid('Identifier of the tenant.'),
  tenant_code: Type.String({ description: 'What confirm_code must be.' }),
  tenant_name: Type.String({ description: 'Name for display.' }),
  counts,
  total: Type.Integer({ minimum: 0, description: 'Sum of the counts.' }),
})

const deletion = {
  id: uuid('Identifier of the deletion.'),
  tenant_id: uuid('Identifier the tenant has, or had.'),
  tenant_code: Type.String({ description: 'Code the tenant has, or had.' }),
  tenant_name: Type.String({ description: 'Name the tenant has, or had.' }),
  status: Type.String({ description: 'PENDING, RUNNING, DONE or FAILED.' }),
  counts,
  requested_by: Type.String({ description: 'Address of the administrator.' }),
  error: nullable(Type.String({ description: 'Why it failed.' })),
  created_at: timestamp('When it was asked for.'),
  started_at: nullable(timestamp('When it began.')),
  ended_at: nullable(timestamp('When it ended.')),
}

export const DeletionSummary = named('DeletionSummary', deletion)

/** @source service §2.7 */
export const DeletionOut = named('DeletionOut', {
  ...deletion,
  steps: Type.Array(
    Type.Object({
      id: Type.String({ description: 'Stable name of the step.' }),
      title: Type.String({ description: 'What it removes.' }),
      status: Type.String({ description: 'PENDING, RUNNING, DONE, FAILED or SKIPPED.' }),
      progress: Type.Number({ minimum: 0, maximum: 1, description: 'How far it is.' }),
      message: nullable(Type.String({ description: 'What it is doing, or why it failed.' })),
      started_at: nullable(timestamp('When it began.')),
      ended_at: nullable(timestamp('When it ended.')),
    }),
    { description: 'The steps in order; a retry repeats only those that are not done.' },
  ),
  log: Type.String({ description: 'Everything that was done, a line each.' }),
})
