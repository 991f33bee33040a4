import { Type } from 'typebox'
import { must, named, nullable, oneOf, timestamp, uuid } from '../../platform/schema.ts'
import { endpointStates, replicaStates } from './serving.states.ts'

const dnsLabel = must(
  '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$',
  'be at most 63 of a-z, 0-9 and hyphens, no hyphen at either end',
)

export const EndpointParams = Type.Object({
  name: Type.String({ ...dnsLabel, description: 'Name of the endpoint.' }),
})

const replicas = (options: object) => Type.Integer({ maximum: 100, description: 'Replicas, 1 to 100.', ...options })

/** @source service §2.5, contract B12.3 */
export const CreateEndpointBody = named('CreateEndpointBody', {
  name: Type.String({ ...dnsLabel, description: 'DNS label, at most 63 characters, unique in the tenant.' }),
  image_id: uuid('Image to serve; it must be READY.'),
  replicas: replicas({ minimum: 1, default: 1 }),
  gpu: Type.Integer({ minimum: 0, default: 0, description: 'GPU slots per replica; 0 serves on the CPU.' }),
  validation_dataset_id: Type.Optional(
    nullable(Type.String({ maxLength: 200, description: 'Frozen data set of the validation run.' })),
  ),
})

/** @source service §2.5; `image_id` is ours */
export const UpdateEndpointBody = named('UpdateEndpointBody', {
  replicas: Type.Optional(replicas({})),
  image_id: Type.Optional(
    uuid('Another READY image to roll over to, without an interruption. Needs the permission DEPLOY.'),
  ),
})

const Failure = named('ServingFailure', {
  message: Type.String({ description: 'What happened, with the last line the process wrote.' }),
  exit_code: nullable(Type.Integer({ description: 'Exit code, unless a signal ended it.' })),
  signal: nullable(Type.String({ description: 'Signal that ended it.' })),
  reason: Type.String({ description: 'exited, killed, stopped, memory, time, lost or not_started.' }),
  at: timestamp('When it happened.'),
})

const Replica = named('ServingReplica', {
  id: uuid('Identifier of the replica.'),
  state: oneOf(replicaStates, {
    description: 'Requests go to those that are READY; WAITING: for its turn to start, or a while after a crash.',
  }),
  image_digest: Type.String({ description: 'Digest of the image it runs.' }),
  restarts: Type.Integer({ minimum: 0, description: 'Times it was started again.' }),
  since: timestamp('Since when it is in this state.'),
  next_start_at: nullable(timestamp('When it is started again, while it is WAITING.')),
  failure: nullable(Failure),
})

export const Endpoint = named('ServingEndpoint', {
  id: uuid('Identifier of the endpoint.'),
  name: Type.String({ description: 'Its name, unique in the tenant.' }),
  state: oneOf(endpointStates, { description: 'RUNNING: all replicas are ready. DEGRADED: some are.' }),
  error: nullable(Failure),
  image_id: uuid('Image it serves.'),
  image_digest: Type.String({ description: 'Digest of that image.' }),
  model_name: Type.String({ description: 'Model in the image.' }),
  model_version: Type.String({ description: 'Version of the model in the image.' }),
  replicas: Type.Integer({ description: 'Replicas wanted; those it starts with when it is STOPPED.' }),
  ready_replicas: Type.Integer({ description: 'Replicas that take requests.' }),
  gpu: Type.Integer({ description: 'GPU slots per replica.' }),
  validation_dataset_id: nullable(Type.String({ description: 'Data set of the validation run.' })),
  deployment_id: uuid('The last change; its progress is at /api/v1/deployments/{id}.'),
  proxy_path: Type.String({ description: 'Where the inference server answers: append ping or invocations.' }),
  instances: Type.Array(Replica),
  created_by: Type.String({ description: 'E-mail of who made it.' }),
  created_at: timestamp('When it was made.'),
  updated_at: timestamp('When it was last changed by somebody.'),
  checked_at: nullable(timestamp('When its replicas were last looked at, to the minute while nothing changes.')),
})

export const LogsQuery = Type.Object({
  lines: Type.Integer({ minimum: 1, maximum: 5000, default: 200, description: 'Most lines of each replica.' }),
})

export const EndpointLogs = named('EndpointLogs', {
  endpoint: Type.String({ description: 'Name of the endpoint.' }),
  replicas: Type.Array(
    named('ReplicaLog', {
      id: uuid('Identifier of the replica.'),
      state: oneOf(replicaStates, { description: 'State of the replica.' }),
      lines: Type.Array(Type.String(), { description: 'Its last lines, oldest first.' }),
    }),
  ),
})
