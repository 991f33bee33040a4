import type { Config } from '../../platform/config.ts'
import { defineFeature, type Feature } from '../../platform/feature.ts'
import { experimentOutputRoutes } from './experiment-outputs.routes.ts'
import { experimentRoutes } from './experiments.routes.ts'
import { trainingRun } from './experiments.runs.ts'
import { sweepRun } from './sweep.runs.ts'
import { trainingAdminRoutes } from './training-admin.routes.ts'
import { purgeWork } from './work-removal.ts'

export const experimentsFeature = ({ trainingSlots }: Pick<Config, 'trainingSlots'>): Feature =>
  defineFeature({
    name: 'experiments',
    operations: [...experimentRoutes, ...experimentOutputRoutes, ...trainingAdminRoutes],
    runs: [{ ...trainingRun, maxConcurrent: trainingSlots }, sweepRun],
    schedules: [{ name: 'experiments.sweep', every: 600_000, kind: sweepRun.kind, input: null }],
    tenantPurge: [purgeWork],
    notificationGroups: [{ name: 'training', title: 'Training' }],
  })
