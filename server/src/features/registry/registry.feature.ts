import { defineFeature, type Feature } from '../../platform/feature.ts'
import { importRoutes } from './imports.routes.ts'
import { importRun } from './imports.runs.ts'
import { registerOciProtocol } from './oci/oci.protocol.ts'
import { registerRegistryMetrics } from './registry-metrics.ts'
import { repositoryRoutes } from './repositories.routes.ts'
import { countTenantContents } from './repositories.store.ts'
import { sweepRun, sweepSchedule } from './sweep.runs.ts'
import { tokenRoutes } from './tokens.routes.ts'

export const registryFeature: Feature = defineFeature({
  name: 'registry',
  operations: [...tokenRoutes, ...repositoryRoutes, ...importRoutes],
  runs: [importRun, sweepRun],
  schedules: [sweepSchedule],
  tenantCounts: countTenantContents,
  notificationGroups: [{ name: 'registry_tokens', title: 'Registry tokens' }],
  metrics: registerRegistryMetrics,
  protocol: registerOciProtocol,
})
