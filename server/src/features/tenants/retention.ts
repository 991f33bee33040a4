import type { RetentionKind } from '../../platform/retention.ts'

/** Days that records are kept when a tenant says nothing; 0 means for ever. @source ADR 0010 */
export const retentionDefaults: Readonly<Record<RetentionKind, number>> = {
  logs: 30,
  records: 90,
  inference: 90,
  alerts: 180,
  audit: 730,
  notifications: 90,
  imports: 30,
}

/** Complete settings from those that a tenant has chosen. */
export const effectiveRetention = (chosen: unknown): Record<RetentionKind, number> => ({
  ...retentionDefaults,
  ...(chosen as Partial<Record<RetentionKind, number>>),
})
