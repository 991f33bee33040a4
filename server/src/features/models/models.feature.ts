import { defineFeature } from '../../platform/feature.ts'
import { comparisonRoutes } from './comparison.routes.ts'
import { heldContents } from './held-contents.store.ts'
import { historyRoutes } from './history.routes.ts'
import { modelRoutes } from './models.routes.ts'
import { promotionExpiry, promotionExpirySchedule } from './promotion-expiry.runs.ts'
import { promotionGroup } from './promotion-notices.ts'
import { promotionRoutes } from './promotions.routes.ts'

export const modelsFeature = defineFeature({
  name: 'models',
  operations: [...modelRoutes, ...comparisonRoutes, ...historyRoutes, ...promotionRoutes],
  runs: [promotionExpiry],
  schedules: [promotionExpirySchedule],
  notificationGroups: [promotionGroup],
  heldDigests: heldContents,
})
