import { defineFeature, type Feature } from '../../platform/feature.ts'
import type { RunKind } from '../../platform/runs/define-run.ts'
import { type DeletionInput, deletionKind } from './deletion.runs.ts'
import { deletionRoutes } from './deletions.routes.ts'
import { retentionKind, retentionSchedule } from './retention.runs.ts'
import { tenantRoutes } from './tenants.routes.ts'
import { fillUnprepared } from './tenants.service.ts'

/** Tenants, what they may use, and how they go. Every other feature has a part in the last. */
export function tenantsFeature(features: () => Feature[]): Feature {
  let kind: RunKind<DeletionInput> | null = null
  const deletion = () => {
    kind ??= deletionKind(features())
    return kind
  }
  return defineFeature({
    name: 'tenants',
    operations: [...tenantRoutes(features), ...deletionRoutes(features, deletion)],
    // Late, because the steps come from the features that stand after this one.
    get runs() {
      return [deletion(), retentionKind(features())]
    },
    schedules: [retentionSchedule],
    start: (services) => fillUnprepared(services, features()),
    notificationGroups: [{ name: 'admin', title: 'Administration' }],
  })
}
