import type { EndpointRow, Failure } from './endpoints.store.ts'
import type { Situation } from './reconcile.ts'
import { readyOf } from './replica-plan.ts'
import type { ReplicaRow } from './replicas.store.ts'

export const endpointView = ({ endpoint, replicas }: Situation) => ({
  id: endpoint.id,
  name: endpoint.name,
  state: endpoint.state,
  error: endpoint.error && failureView(endpoint.error),
  image_id: endpoint.imageId,
  image_digest: endpoint.imageDigest,
  model_name: endpoint.modelName,
  model_version: String(endpoint.modelVersion),
  replicas: endpoint.replicas,
  ready_replicas: readyOf(replicas),
  gpu: endpoint.gpu,
  validation_dataset_id: endpoint.validationDatasetId,
  deployment_id: endpoint.deploymentId,
  proxy_path: proxyPath(endpoint),
  instances: replicas.map(replicaView),
  created_by: endpoint.createdBy,
  created_at: endpoint.createdAt.toISOString(),
  updated_at: endpoint.updatedAt.toISOString(),
  checked_at: endpoint.checkedAt?.toISOString() ?? null,
})

const proxyPath = ({ name }: EndpointRow) => `/api/v1/serving/endpoints/${name}/proxy/`

const replicaView = (replica: ReplicaRow) => ({
  id: replica.id,
  state: replica.state,
  image_digest: replica.imageDigest,
  restarts: Math.max(0, replica.attempt - 1),
  since: replica.since.toISOString(),
  next_start_at: replica.until?.toISOString() ?? null,
  failure: replica.failure && failureView(replica.failure),
})

const failureView = ({ message, exitCode, signal, reason, at }: Failure) => ({
  message,
  exit_code: exitCode,
  signal,
  reason,
  at,
})
