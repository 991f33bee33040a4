import { Type } from 'typebox'
import { bytes, listOf, named, nullable } from '../../platform/schema.ts'

export const RegistryUsage = named('RegistryUsage', {
  tenant: Type.String({ description: 'Code of the tenant.' }),
  used_bytes: bytes('Each blob and manifest once, and uploads that are under way.'),
  quota_bytes: nullable(bytes('Most bytes the tenant may keep; null without a limit.')),
})
export const RegistryUsageList = listOf(RegistryUsage)

export const QuotaBody = Type.Object(
  {
    quota_bytes: nullable(
      Type.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'Most bytes the tenant may keep; null for no limit.',
      }),
    ),
  },
  { additionalProperties: false },
)
