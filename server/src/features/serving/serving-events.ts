import type { Tx } from '../../platform/db/transaction.ts'
import { publish } from '../../platform/events/events.ts'
import type { DeploymentRow } from './deployments.store.ts'
import type { EndpointRow } from './endpoints.store.ts'

/** Between processes of ours: where the proxies send the requests of an endpoint has changed. */
export const routesChannel = 'serving-routes'

export const publishRoutes = (tx: Tx, { tenantId, name }: Pick<EndpointRow, 'tenantId' | 'name'>): Promise<void> =>
  publish(tx, routesChannel, 'routes', { tenantId, name })

/** @source contract B7.4, B7.5 */
export const deploymentChannel = (deploymentId: string): string => `deployments:${deploymentId}`

export const publishDeployment = (
  tx: Tx,
  { id, endpoint, state }: Pick<DeploymentRow, 'id' | 'endpoint' | 'state'>,
  step: string | null,
  message: string | null,
): Promise<void> => publish(tx, deploymentChannel(id), 'deployment', { id, endpoint, state, step, message })
