import { defineFeature } from '../../platform/feature.ts'
import { modelRoutes } from './models.routes.ts'
import { promotionRoutes } from './promotions.routes.ts'

export const modelsFeature = defineFeature({ name: 'models', operations: [...modelRoutes, ...promotionRoutes] })
