import { defineFeature } from '../../platform/feature.ts'
import { imageRoutes } from './images.routes.ts'
import { imageBuild } from './images.runs.ts'

export const imagesFeature = defineFeature({
  name: 'images',
  operations: imageRoutes,
  runs: [imageBuild],
  notificationGroups: [],
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
