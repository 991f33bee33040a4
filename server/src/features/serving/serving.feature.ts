import type { FastifyInstance } from 'fastify'
import type { Services } from '../../platform/context.ts'
import { defineFeature, type Feature } from '../../platform/feature.ts'
import { deploymentRoutes } from './deployments.routes.ts'
import { endpointRoutes } from './endpoints.routes.ts'
import { countEndpoints } from './endpoints.store.ts'
import { proxyRoutes } from './proxy.routes.ts'
import { routeTable } from './route-table.ts'
import { deployRun } from './serving.runs.ts'
import { superviseRun, superviseSchedule } from './supervisor.ts'
import { endServing } from './tenant-purge.ts'
import { trafficRoutes } from './traffic.routes.ts'
import { trafficRecorder } from './traffic-recorder.ts'
import { validationRoutes } from './validation.routes.ts'
import { validationRun } from './validation.runs.ts'

/** Endpoints: replicas of images behind a proxy. */
export function servingFeature(): Feature {
  const routes = routeTable()
  const traffic = trafficRecorder()
  return defineFeature({
    name: 'serving',
    operations: [
      ...endpointRoutes,
      ...deploymentRoutes,
      ...trafficRoutes(traffic),
      ...validationRoutes,
      ...proxyRoutes(routes, traffic),
    ],
    runs: [deployRun, superviseRun, validationRun],
    schedules: [superviseSchedule],
    tenantPurge: [endServing],
    tenantCounts: countEndpoints,
    notificationGroups: [{ name: 'serving', title: 'Serving' }],
    metrics: (registry) => traffic.register(registry),
    async protocol(app: FastifyInstance, services: Services) {
      const stopListening = routes.listen(services)
      const stopCounting = traffic.start(services)
      app.addHook('onClose', async () => {
        stopListening()
        await stopCounting()
      })
    },
  })
}
