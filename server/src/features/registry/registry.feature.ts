import type { FastifyInstance } from 'fastify'
import type { Services } from '../../platform/context.ts'
import { defineFeature, type Feature } from '../../platform/feature.ts'
import { importRoutes } from './imports.routes.ts'
import { importGroup, importRetention, importRun } from './imports.runs.ts'
import { registerOciProtocol } from './oci/oci.protocol.ts'
import type { OciRegistry } from './oci/oci-registry.ts'
import { pingRoute } from './ping.routes.ts'
import { quotaRoutes } from './quotas.routes.ts'
import { registryHealth } from './registry-health.ts'
import { registerRegistryMetrics } from './registry-metrics.ts'
import { repositoryRoutes } from './repositories.routes.ts'
import { countTenantContents } from './repositories.store.ts'
import { sweepRun, sweepSchedule } from './sweep.runs.ts'
import { heldContents } from './sweep.store.ts'
import { tokenRoutes } from './tokens.routes.ts'

export function registryFeature(): Feature {
  let oci: OciRegistry | null = null
  const opened = () => {
    if (!oci) throw new Error('the registry is asked before it is open')
    return oci
  }
  return defineFeature({
    name: 'registry',
    operations: [pingRoute(opened), ...tokenRoutes, ...repositoryRoutes, ...importRoutes, ...quotaRoutes],
    runs: [importRun, sweepRun],
    schedules: [sweepSchedule],
    tenantCounts: countTenantContents,
    heldDigests: heldContents,
    retention: [importRetention],
    healthChecks: [registryHealth],
    notificationGroups: [{ name: 'registry_tokens', title: 'Registry tokens' }, importGroup],
    metrics: registerRegistryMetrics,
    async protocol(app: FastifyInstance, services: Services) {
      oci = await registerOciProtocol(app, services)
    },
  })
}
