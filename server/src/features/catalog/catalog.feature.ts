import { defineFeature } from '../../platform/feature.ts'
import { catalogRoutes } from './catalog.routes.ts'

export const catalogFeature = defineFeature({ name: 'catalog', operations: catalogRoutes })
