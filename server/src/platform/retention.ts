import type { Ctx } from './context.ts'

/** Kinds of records that a tenant says the days for. */
export const retentionKinds = ['logs', 'records', 'inference', 'alerts', 'audit', 'notifications', 'imports'] as const

export type RetentionKind = (typeof retentionKinds)[number]

/** What is too old. */
export interface RetentionScope {
  /** Null: records that belong to no tenant. */
  tenantId: string | null
  before: Date
}

/** What a feature keeps that grows old. One run erases for all features, as each tenant's settings say. */
export interface RetentionRule {
  kind: RetentionKind
  /** The records in words, such as `finished imports`. */
  what: string
  /** Whether there are such records without a tenant; they are kept as long as the default says. */
  ofSystem?: boolean
  /** Removes some of a scope's records, in a transaction of its own, and says how many; 0 when none is left. */
  erase(ctx: Ctx, scope: RetentionScope, signal: AbortSignal): Promise<number>
}
