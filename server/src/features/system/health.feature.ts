import { defineFeature, type Feature } from '../../platform/feature.ts'
import { healthRoutes } from './health.routes.ts'
import { housekeeping, housekeepingSchedule, logRetention } from './housekeeping.runs.ts'
import { platformChecks } from './platform-checks.ts'

/** How the installation is, and what keeps it from filling up. */
export const healthFeature = (features: () => Feature[]): Feature =>
  defineFeature({
    name: 'health',
    operations: healthRoutes(() => features().flatMap((feature) => feature.healthChecks ?? [])),
    healthChecks: platformChecks,
    runs: [housekeeping],
    schedules: [housekeepingSchedule],
    retention: [logRetention],
  })
