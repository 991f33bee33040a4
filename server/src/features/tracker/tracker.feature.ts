import { defineFeature } from '../../platform/feature.ts'
import { heldContents } from './held-contents.store.ts'
import { artifactRoutes } from './mlflow/artifacts.routes.ts'
import { experimentRoutes } from './mlflow/experiments.routes.ts'
import { loggedModelRoutes } from './mlflow/logged-models.routes.ts'
import { metricRoutes } from './mlflow/metrics.routes.ts'
import type { MlflowRoute } from './mlflow/mlflow-route.ts'
import { modelVersionRoutes } from './mlflow/model-versions.routes.ts'
import { mountMlflow } from './mlflow/mount.ts'
import { registeredModelRoutes } from './mlflow/registered-models.routes.ts'
import { runInputRoutes } from './mlflow/run-inputs.routes.ts'
import { runLoggingRoutes } from './mlflow/run-logging.routes.ts'
import { runRoutes } from './mlflow/runs.routes.ts'
import { serverRoutes } from './mlflow/server.routes.ts'
import { tokenExpiry, tokenExpirySchedule, tokenGroup } from './token-expiry.runs.ts'
import { trackerRoutes } from './tracker.routes.ts'

/** Everything that answers under `/tracker`. @source contract B10.0 */
export const mlflowRoutes: MlflowRoute[] = [
  ...experimentRoutes,
  ...runRoutes,
  ...runLoggingRoutes,
  ...runInputRoutes,
  ...metricRoutes,
  ...artifactRoutes,
  ...loggedModelRoutes,
  ...registeredModelRoutes,
  ...modelVersionRoutes,
  ...serverRoutes,
]

export const trackerFeature = defineFeature({
  name: 'tracker',
  operations: trackerRoutes,
  runs: [tokenExpiry],
  schedules: [tokenExpirySchedule],
  notificationGroups: [tokenGroup],
  heldDigests: heldContents,
  protocol: (app, services) => mountMlflow(app, services, mlflowRoutes),
})
