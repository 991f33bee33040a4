import { Type } from 'typebox'
import type { TenantCtx } from '../../platform/context.ts'
import { notFound } from '../../platform/errors.ts'
import { tenant } from '../../platform/http/access.ts'
import { EventStream } from '../../platform/http/event-stream.ts'
import { pageQuery, pageView } from '../../platform/http/lists.ts'
import { type Operation, operation, raw } from '../../platform/http/operation.ts'
import { listSteps, type StepView } from '../../platform/runs/runs.ts'
import { named, nullable, oneOf, pageOf, timestamp, uuid } from '../../platform/schema.ts'
import { read } from '../../platform/transaction.ts'
import { type DeploymentRow, findDeployment, listDeployments } from './deployments.store.ts'
import { deploymentActions, deploymentStates } from './serving.states.ts'
import { deploymentChannel } from './serving-events.ts'

const DeploymentError = named('DeploymentError', {
  message: Type.String({ description: 'Why it failed.' }),
  step: nullable(Type.String({ description: 'Step it failed in.' })),
  reason: nullable(
    Type.String({ description: 'superseded (a later change took over), replica_crashes, not_ready, or null.' }),
  ),
})

const summaryFields = {
  id: uuid('Identifier of the deployment.'),
  endpoint: Type.String({ description: 'Name of the endpoint; it may be gone.' }),
  action: oneOf(deploymentActions, { description: 'What was done to the endpoint.' }),
  state: oneOf(deploymentStates, { description: 'ROLLING until the endpoint is as wanted, then READY.' }),
  replicas: Type.Integer({ description: 'Replicas wanted.' }),
  image_id: uuid('Image wanted.'),
  error: nullable(DeploymentError),
  created_by: Type.String({ description: 'E-mail of who did it.' }),
  created_at: timestamp('When it was done.'),
  ended_at: nullable(timestamp('When it became READY or FAILED.')),
}

const DeploymentStep = named('DeploymentStep', {
  id: Type.String({ description: 'Identifier of the step.' }),
  title: Type.String({ description: 'What it does.' }),
  state: oneOf(['pending', 'running', 'succeeded', 'failed', 'canceled', 'skipped'], { description: 'State.' }),
  progress: Type.Number({ description: 'From 0 to 1.' }),
  message: nullable(Type.String({ description: 'What it is doing, or why it failed.' })),
  started_at: nullable(timestamp('When it began.')),
  ended_at: nullable(timestamp('When it ended.')),
})

const DeploymentSummary = named('DeploymentSummary', summaryFields)
const Deployment = named('Deployment', { ...summaryFields, steps: Type.Array(DeploymentStep) })

const Params = Type.Object({ id: uuid('Identifier of the deployment.') })

const Query = Type.Object({
  endpoint: Type.Optional(Type.String({ maxLength: 63, description: 'Deployments of this endpoint alone.' })),
  state: Type.Optional(oneOf(deploymentStates, { description: 'Deployments in this state alone.' })),
  ...pageQuery,
})

/** @source contract PR-49, PR-50, ST-03 */
export const deploymentRoutes: Operation[] = [
  operation({
    id: 'deployments.list',
    method: 'GET',
    path: '/api/v1/deployments',
    summary: 'What was done to endpoints, newest first.',
    access: tenant('VIEW'),
    query: Query,
    responses: { 200: pageOf(DeploymentSummary) },
    handler: async (ctx, { query }) => {
      const { items, total } = await read(ctx, (tx) => listDeployments(tx, ctx.tenant.id, query, query))
      return pageView(query, { items: items.map(summaryView), total })
    },
  }),
  operation({
    id: 'deployments.get',
    method: 'GET',
    path: '/api/v1/deployments/{id}',
    summary: 'One deployment with its steps.',
    access: tenant('VIEW'),
    params: Params,
    etag: true,
    responses: { 200: Deployment },
    handler: async (ctx, { params }) => {
      const { deployment, steps } = await getDeployment(ctx, params.id)
      return { ...summaryView(deployment), steps: steps.map(stepView) }
    },
  }),
  operation({
    id: 'deployments.stream',
    method: 'GET',
    path: '/api/v1/stream/deployments/{id}',
    summary: 'Progress of a deployment as Server-Sent Events.',
    access: tenant('VIEW'),
    params: Params,
    responses: {
      200: raw('text/event-stream', 'Events `connected` and `deployment` {id,endpoint,state,step,message}.'),
    },
    handler: async (ctx, { params }) => {
      await getDeployment(ctx, params.id)
      return new EventStream(deploymentChannel(params.id), ['deployment'])
    },
  }),
]

function getDeployment(ctx: TenantCtx, id: string): Promise<{ deployment: DeploymentRow; steps: StepView[] }> {
  return read(ctx, async (tx) => {
    const deployment = await findDeployment(tx, id)
    if (deployment?.tenantId !== ctx.tenant.id) throw notFound('There is no such deployment.')
    return { deployment, steps: await listSteps(tx, deployment.runId) }
  })
}

const summaryView = (deployment: DeploymentRow) => ({
  id: deployment.id,
  endpoint: deployment.endpoint,
  action: deployment.action,
  state: deployment.state,
  replicas: deployment.wanted.replicas,
  image_id: deployment.wanted.imageId,
  error: deployment.error,
  created_by: deployment.createdBy,
  created_at: deployment.createdAt.toISOString(),
  ended_at: deployment.endedAt?.toISOString() ?? null,
})

const stepView = ({ startedAt, endedAt, ...step }: StepView) => ({
  ...step,
  started_at: startedAt?.toISOString() ?? null,
  ended_at: endedAt?.toISOString() ?? null,
})
