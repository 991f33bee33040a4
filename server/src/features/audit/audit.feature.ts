import { defineFeature } from '../../platform/feature.ts'
import { auditRoutes } from './audit.routes.ts'
import { auditRetention, sealing, sealSchedule } from './audit.runs.ts'

/** Who did what, when and from where, in a chain that shows when it was tampered with. */
export const auditFeature = defineFeature({
  name: 'audit',
  operations: auditRoutes,
  runs: [sealing],
  schedules: [sealSchedule],
  retention: [auditRetention],
})
