import type { Registry } from 'prom-client'
import type { Ctx, Services } from './context.ts'
import type { Tx } from './db/transaction.ts'
import type { Operation } from './http/operation.ts'
import type { RetentionRule } from './retention.ts'
import type { RunKind, Schedule, Step } from './runs/define-run.ts'

export interface HealthCheck {
  /** Component, such as `database`. */
  name: string
  /** Resolves with what is worth knowing (version, free space); throws with the reason when it does not work. */
  check(services: Services): Promise<Record<string, unknown>>
  /** What to do when it does not work. */
  remedy: string
  /** Whether the service as a whole is not ready without it. */
  essential?: boolean
}

/**
 * Everything a feature adds to the product: read its manifest first. Lists that cut across all features are
 * collected from here, so deleting a tenant or drawing the health page imports nobody and forgets nobody.
 * @source house.md §2
 */
export interface Feature {
  name: string
  operations?: Operation[]
  /** Kinds of runs, made when the services are there. */
  runs?: RunKind[]
  schedules?: Schedule[]
  /** Done once at every start of a process, before it answers or works; must bear being done again and concurrently. */
  start?(services: Services): Promise<void>
  /** Fills a tenant that was just made, in the same transaction. */
  tenantCreated?(tx: Tx, ctx: Ctx, tenantId: string): Promise<void>
  /** Steps that remove everything of a tenant that no `on delete cascade` removes. */
  tenantPurge?: Step<{ tenantId: string; tenantCode: string }>[]
  /** Counts for the preview of a tenant's deletion. */
  tenantCounts?(tx: Tx, tenantId: string): Promise<Record<string, number>>
  /** What of the records grows old. */
  retention?: RetentionRule[]
  /**
   * Of these digests of stored content, those that rows of this feature refer to, for any tenant. What no feature names
   * is swept: a feature that keeps a digest of the blob store must say so here. @source ADR 11
   */
  heldDigests?(tx: Tx, digests: string[]): Promise<string[]>
  healthChecks?: HealthCheck[]
  /** Groups of notifications, in the order of the preferences page. */
  notificationGroups?: { name: string; title: string }[]
  metrics?(registry: Registry, services: Services): void
  /** Routes of another protocol (OCI, MLflow, scoring proxy) that `operation()` cannot describe. */
  // biome-ignore lint/suspicious/noExplicitAny: the Fastify instance; naming its type here would tie features to it
  protocol?(app: any, services: Services): Promise<void>
}

export const defineFeature = (feature: Feature): Feature => feature
