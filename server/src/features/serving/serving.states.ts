/** States of an endpoint. @source service §3.1, contract B12.3 */
export const endpointStates = ['PENDING', 'CONNECTING', 'RUNNING', 'DEGRADED', 'FAILED', 'STOPPED', 'DELETING'] as const
export type EndpointState = (typeof endpointStates)[number]

/** What somebody wants of an endpoint. */
export type Desired = 'RUNNING' | 'STOPPED' | 'DELETED'

/** @source contract PR-50 */
export const deploymentStates = ['PENDING', 'ROLLING', 'READY', 'FAILED'] as const
export type DeploymentState = (typeof deploymentStates)[number]

/** `update` is a change of the image, with or without one of the replicas. @source contract PR-49 */
export const deploymentActions = ['create', 'update', 'scale', 'start', 'stop', 'delete'] as const
export type DeploymentAction = (typeof deploymentActions)[number]

/**
 * States of a replica: STARTING until it answers, READY while requests go to it, UNREADY when it does not answer,
 * WAITING until it is its turn to start, or after a crash until it is started again, DRAINING while it ends what it has.
 */
export const replicaStates = ['STARTING', 'READY', 'UNREADY', 'WAITING', 'DRAINING'] as const
export type ReplicaState = (typeof replicaStates)[number]

/** @source contract SV-12 */
export const validationStates = ['NOT_RUN', 'RUNNING', 'PASSED', 'FAILED'] as const
