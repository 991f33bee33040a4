import { defineFeature, type Feature } from '../../platform/feature.ts'
import { assembleUpload } from './dataset-assembly.runs.ts'
import { expireUploads } from './dataset-expiry.runs.ts'
import { datasetFileRoutes } from './dataset-files.routes.ts'
import { datasetUploadRoutes } from './dataset-uploads.routes.ts'
import { validateDataset } from './dataset-validation.runs.ts'
import { datasetVersionRoutes } from './dataset-versions.routes.ts'
import { datasetRoutes } from './datasets.routes.ts'
import { countDatasets } from './datasets.store.ts'
import { heldContents } from './held-contents.store.ts'

const tenMinutesMs = 600_000

export const datasetsFeature: Feature = defineFeature({
  name: 'datasets',
  operations: [...datasetRoutes, ...datasetFileRoutes, ...datasetUploadRoutes, ...datasetVersionRoutes],
  runs: [assembleUpload, validateDataset, expireUploads],
  schedules: [{ name: 'datasets.expireUploads', every: tenMinutesMs, kind: 'datasets.expireUploads', input: null }],
  tenantCounts: countDatasets,
  heldDigests: heldContents,
  notificationGroups: [{ name: 'dataset', title: 'Datasets' }],
})
