import { defineFeature, type Feature } from '../../platform/feature.ts'
import { datasetSyncRoutes } from './dataset-syncs.routes.ts'
import { dueSchedule, startDueSyncs } from './due-syncs.runs.ts'
import { externalSourceRoutes } from './external-sources.routes.ts'
import { countSources } from './external-sources.store.ts'
import { syncDataset, tidySync } from './sync.runs.ts'

/** Places outside of the platform, and the datasets that are kept in step with them. */
export const externalSourcesFeature: Feature = defineFeature({
  name: 'external-sources',
  operations: [...externalSourceRoutes, ...datasetSyncRoutes],
  runs: [syncDataset, tidySync, startDueSyncs],
  schedules: [dueSchedule],
  tenantCounts: async (tx, tenantId) => ({ external_sources: await countSources(tx, tenantId) }),
})
