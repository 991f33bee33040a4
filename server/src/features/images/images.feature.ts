import { defineFeature } from '../../platform/feature.ts'
import { imageRoutes } from './images.routes.ts'
import { imageBuild } from './images.runs.ts'
import { countImages } from './images.store.ts'

export const imagesFeature = defineFeature({
  name: 'images',
  operations: imageRoutes,
  runs: [imageBuild],
  tenantCounts: countImages,
  notificationGroups: [{ name: 'images', title: 'Images' }],
  healthChecks: [
    {
      name: 'image builder',
      check: async ({ adapters }) => {
        await adapters.imageBuilder.check()
        return { driver: adapters.imageBuilder.driver }
      },
      remedy: 'Install the packages of model-server (npm ci) and a Node.js of the pinned version.',
    },
  ],
})
