import { defineFeature } from '../../platform/feature.ts'
import { comparisonRoutes } from './comparison.routes.ts'
import { historyRoutes } from './history.routes.ts'
import { modelRoutes } from './models.routes.ts'
import { promotionRoutes } from './promotions.routes.ts'

export const modelsFeature = defineFeature({
  name: 'models',
  operations: [...modelRoutes, ...comparisonRoutes, ...historyRoutes, ...promotionRoutes],
})
