import { defineFeature, type Feature } from '../../platform/feature.ts'
import { importRoutes } from './imports.routes.ts'
import { importRun } from './imports.runs.ts'
import { registerOciProtocol } from './oci/oci.protocol.ts'
import { repositoryRoutes } from './repositories.routes.ts'
import { tokenRoutes } from './tokens.routes.ts'

export const registryFeature: Feature = defineFeature({
  name: 'registry',
  operations: [...tokenRoutes, ...repositoryRoutes, ...importRoutes],
  runs: [importRun],
  protocol: registerOciProtocol,
})
