import { textAnswer } from '../../../platform/http/answer.ts'
import { protocolVersion } from '../tracking-uri.ts'
import type { MlflowRoute } from './mlflow-route.ts'

/** @source contract B10.0, ML-66, ML-67, ML-70 */
export const serverRoutes: MlflowRoute[] = [
  { method: 'GET', path: '/health', needs: 'VIEW', handler: async () => textAnswer('OK') },
  { method: 'GET', path: '/version', needs: 'VIEW', handler: async () => textAnswer(protocolVersion) },
  {
    method: 'GET',
    path: '/api/3.0/mlflow/server-info',
    needs: 'VIEW',
    handler: async () => ({ workspaces_enabled: false }),
  },
]
