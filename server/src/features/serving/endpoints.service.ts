import { audited } from '../../platform/audit.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict, forbidden, notFound } from '../../platform/errors.ts'
import { newId } from '../../platform/ids.ts'
import { startRun } from '../../platform/runs/runs.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { getReadyImage, type ReadyImage } from '../images/images.api.ts'
import { insertDeployment, isRolling } from './deployments.store.ts'
import {
  type EndpointChange,
  type EndpointRow,
  findEndpoint,
  insertEndpoint,
  listEndpoints,
  lockEndpointByName,
  type Served,
  updateEndpoint,
} from './endpoints.store.ts'
import { holdServedImage } from './image-holds.ts'
import { reconcile, type Situation } from './reconcile.ts'
import { listReplicas, listTenantReplicas } from './replicas.store.ts'
import { requireEndpoint } from './require-endpoint.ts'
import { deployRun } from './serving.runs.ts'
import type { DeploymentAction } from './serving.states.ts'
import { publishRoutes } from './serving-events.ts'
import { requireValidationDataset } from './validation.service.ts'

export interface CreateRequest {
  name: string
  image_id: string
  replicas: number
  gpu: number
  validation_dataset_id?: string | null
}

/** Throws `conflict` when the name is taken, the image is not READY or without its model, or a GPU is asked for. @source contract B12.3 */
export async function createEndpoint(ctx: TenantCtx, request: CreateRequest): Promise<Situation> {
  const { name, replicas, gpu, validation_dataset_id: validationDatasetId } = request
  audited(ctx, name, { image_id: request.image_id, replicas })
  if (validationDatasetId) await requireValidationDataset(ctx, validationDatasetId)
  return transaction(ctx, async (tx) => {
    const image = await getReadyImage(tx, ctx, request.image_id)
    if (gpu > 0) throw conflict('This tenant has no share of a GPU.', { detail: { reason: 'no_gpu_share' } })
    const endpoint = {
      ...{ id: newId(), tenantId: ctx.tenant.id, name, gpu, deploymentId: newId() },
      ...servedOf(image, replicas),
      validationDatasetId: validationDatasetId || null,
      createdBy: ctx.actor.email,
    }
    if (!(await insertEndpoint(tx, endpoint)))
      throw conflict('An endpoint has this name already.', { detail: { reason: 'name_taken' } })
    await holdServedImage(tx, ctx, name, image)
    const row = await loadEndpoint(tx, ctx, name)
    await startDeployment(tx, ctx, row, 'create', null)
    return { endpoint: row, replicas: [] }
  }).catch(explainMissingModel)
}

/** An image outlives its model version; an endpoint keeps a version from being deleted, so there must be one. */
function explainMissingModel(error: { code?: string; constraint?: string }): never {
  if (error.constraint !== 'serving_endpoints_model') throw error
  throw conflict('The model version of this image was deleted.', { detail: { reason: 'model_deleted' }, cause: error })
}

const servedOf = (image: ReadyImage, replicas: number): Served => ({
  replicas,
  imageId: image.id,
  imageDigest: image.digest,
  modelId: image.modelId,
  modelName: image.modelName,
  modelVersion: image.modelVersion,
})

const servedBy = ({ replicas, imageId, imageDigest, modelId, modelName, modelVersion }: EndpointRow): Served => ({
  replicas,
  imageId,
  imageDigest,
  modelId,
  modelName,
  modelVersion,
})

/** Records the change that made the endpoint's present generation, and starts the run that brings it about. */
async function startDeployment(
  tx: Tx,
  ctx: TenantCtx,
  endpoint: EndpointRow,
  action: DeploymentAction,
  previous: Served | null,
): Promise<void> {
  const { id: endpointId, tenantId, generation, deploymentId, name } = endpoint
  const input = { deploymentId, endpointId, tenantId, generation, action }
  const runId = await startRun(tx, ctx, deployRun, input, { subject: `deployment:${deploymentId}` })
  const record = { id: deploymentId, tenantId, endpointId, endpoint: name, action, runId, generation }
  await insertDeployment(tx, { ...record, wanted: servedBy(endpoint), previous, createdBy: ctx.actor.email })
}

/** Changes what is wanted of an endpoint; the caller holds its lock. */
async function redeploy(
  tx: Tx,
  ctx: TenantCtx,
  endpoint: EndpointRow,
  action: DeploymentAction,
  change: EndpointChange,
  previous: Served | null = null,
): Promise<void> {
  const next = { ...change, generation: endpoint.generation + 1, deploymentId: newId() }
  await updateEndpoint(tx, endpoint, next)
  await startDeployment(tx, ctx, { ...endpoint, ...next }, action, previous)
  await publishRoutes(tx, endpoint)
}

export async function loadEndpoint(tx: Tx, ctx: TenantCtx, name: string): Promise<EndpointRow> {
  return requireEndpoint(await findEndpoint(tx, ctx.tenant.id, name))
}

export async function loadSituation(tx: Tx, ctx: TenantCtx, name: string): Promise<Situation> {
  const endpoint = await loadEndpoint(tx, ctx, name)
  return { endpoint, replicas: await listReplicas(tx, endpoint) }
}

export const getEndpoint = (ctx: TenantCtx, name: string): Promise<Situation> =>
  read(ctx, (tx) => loadSituation(tx, ctx, name))

/** Newest first. */
export async function findEndpoints(ctx: TenantCtx): Promise<Situation[]> {
  const [endpoints, replicas] = await read(ctx, (tx) =>
    Promise.all([listEndpoints(tx, ctx.tenant.id), listTenantReplicas(tx, ctx.tenant.id)]),
  )
  const byEndpoint = Map.groupBy(replicas, ({ endpointId }) => endpointId)
  return endpoints.map((endpoint) => ({ endpoint, replicas: byEndpoint.get(endpoint.id) ?? [] }))
}

/** A change of an endpoint under its lock; nothing happens when `change` returns without one. */
function changeEndpoint(
  ctx: TenantCtx,
  name: string,
  change: (tx: Tx, endpoint: EndpointRow) => Promise<void>,
): Promise<Situation> {
  audited(ctx, name)
  return transaction(ctx, async (tx) => {
    const endpoint = requireEndpoint(await lockEndpointByName(tx, ctx.tenant.id, name))
    await change(tx, endpoint)
    return loadSituation(tx, ctx, name)
  })
}

function requireNotDeleted({ desired }: EndpointRow): void {
  if (desired === 'DELETED') throw conflict('The endpoint is being deleted.', { detail: { reason: 'deleting' } })
}

export interface UpdateRequest {
  replicas?: number
  image_id?: string
}

/**
 * Scales, or rolls over to another image: new replicas are ready before old ones go. `precondition` sees what is about
 * to be changed, under its lock. @source contract B12.3
 */
export function changeServed(
  ctx: TenantCtx,
  name: string,
  request: UpdateRequest,
  precondition: (present: Situation) => void,
): Promise<Situation> {
  const { replicas, image_id: imageId } = request
  if (imageId !== undefined && !ctx.permissions.has('DEPLOY'))
    throw forbidden('Another image needs the permission DEPLOY.')
  return changeEndpoint(ctx, name, async (tx, endpoint) => {
    precondition({ endpoint, replicas: await listReplicas(tx, endpoint) })
    requireNotDeleted(endpoint)
    if (endpoint.desired === 'STOPPED')
      throw conflict('The endpoint is stopped; start it first.', { detail: { reason: 'stopped' } })
    const count = replicas ?? endpoint.replicas
    if (imageId === undefined || imageId === endpoint.imageId) {
      if (count !== endpoint.replicas) await redeploy(tx, ctx, endpoint, 'scale', { replicas: count })
      return
    }
    const image = await getReadyImage(tx, ctx, imageId)
    await holdServedImage(tx, ctx, name, image)
    await redeploy(tx, ctx, endpoint, 'update', servedOf(image, count), servedBy(endpoint))
  }).catch(explainMissingModel)
}

/** Nothing happens to a stopped one. From now on no request reaches it; what it has taken it answers. */
export const stopEndpoint = (ctx: TenantCtx, name: string): Promise<Situation> =>
  changeEndpoint(ctx, name, async (tx, endpoint) => {
    requireNotDeleted(endpoint)
    if (endpoint.desired !== 'STOPPED')
      await redeploy(tx, ctx, endpoint, 'stop', { desired: 'STOPPED', state: 'STOPPED', error: null })
  })

/** Nothing happens to one that was not stopped. */
export const startEndpoint = (ctx: TenantCtx, name: string): Promise<Situation> =>
  changeEndpoint(ctx, name, async (tx, endpoint) => {
    requireNotDeleted(endpoint)
    if (endpoint.desired === 'STOPPED')
      await redeploy(tx, ctx, endpoint, 'start', { desired: 'RUNNING', state: 'CONNECTING', error: null })
  })

/** Its name is free when the deployment that this starts has ended; one that failed is tried again. */
export const removeEndpoint = (ctx: TenantCtx, name: string): Promise<Situation> =>
  changeEndpoint(ctx, name, async (tx, endpoint) => {
    if (endpoint.desired !== 'DELETED' || !(await isRolling(tx, endpoint, endpoint.generation)))
      await redeploy(tx, ctx, endpoint, 'delete', { desired: 'DELETED', state: 'DELETING', error: null })
  })

/** Looks at every replica now. @source contract SV-11 */
export async function checkEndpoint(ctx: TenantCtx, name: string): Promise<Situation> {
  audited(ctx, name)
  const { endpoint } = await getEndpoint(ctx, name)
  const situation = await reconcile(ctx, endpoint, { asked: true })
  if (!situation) throw notFound('There is no such endpoint.')
  return situation
}
