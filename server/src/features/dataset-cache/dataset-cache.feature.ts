import { defineFeature } from '../../platform/feature.ts'
import { datasetCacheRoutes } from './dataset-cache.routes.ts'

/** Datasets laid out as files for trainings. */
export const datasetCacheFeature = defineFeature({ name: 'dataset-cache', operations: datasetCacheRoutes })
