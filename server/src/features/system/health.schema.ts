import { Type } from 'typebox'
import { anyObject, named, nullable, oneOf, timestamp } from '../../platform/schema.ts'

export const componentStatuses = ['ok', 'disabled', 'degraded', 'down'] as const
export const severities = ['critical', 'warning', 'info'] as const

const Component = named('HealthComponent', {
  name: Type.String({ description: 'What was looked at.' }),
  status: oneOf(componentStatuses, {
    description: 'disabled: not set up, on purpose. degraded: it works badly, or something can do without it.',
  }),
  essential: Type.Boolean({ description: 'Whether the platform can not work without it.' }),
  latency_ms: Type.Number({ minimum: 0, description: 'How long the look took, in milliseconds.' }),
  version: nullable(Type.String({ description: 'Its version, where it has one.' })),
  message: nullable(Type.String({ description: 'What is wrong, or worth knowing.' })),
  remedy: nullable(Type.String({ description: 'What to do; null when nothing is to be done.' })),
  detail: anyObject('Figures of this component.'),
})

const Finding = named('HygieneFinding', {
  key: Type.String({ description: 'Stable name of the finding.' }),
  severity: oneOf(severities, { description: 'How bad it is.' }),
  message: Type.String({ description: 'What is the matter.' }),
  remedy: Type.String({ description: 'What to do.' }),
})

/** @source contract SY-01 */
export const SystemHealth = named('SystemHealth', {
  status: oneOf(['ok', 'degraded', 'down'], { description: 'The worst of the components.' }),
  version: Type.String({ description: 'Version of the platform.' }),
  checked_at: timestamp('When it was looked at.'),
  uptime_seconds: Type.Integer({ minimum: 0, description: 'How long this process runs.' }),
  components: Type.Array(Component, { description: 'Everything the platform depends on.' }),
  hygiene: Type.Array(Finding, { description: 'What is unsafe or unwise in the configuration, worst first.' }),
})
