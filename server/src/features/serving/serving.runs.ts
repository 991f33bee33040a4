import { setTimeout as sleep } from 'node:timers/promises'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict } from '../../platform/errors.ts'
import { defineRun, type RunChange, type StepRun, step } from '../../platform/runs/define-run.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { getReadyImage, openImage } from '../images/images.api.ts'
import { releaseImage } from '../registry/registry.api.ts'
import { type DeploymentError, type DeploymentRow, findDeployment, updateDeployment } from './deployments.store.ts'
import { deleteEndpoint, type EndpointRow, findEndpointById, lockEndpoint, updateEndpoint } from './endpoints.store.ts'
import { holderOf, holdServedImage } from './image-holds.ts'
import { drained, reconcile, removeReplica, type Situation } from './reconcile.ts'
import { failingOf, readyOf } from './replica-plan.ts'
import type { DeploymentAction, DeploymentState } from './serving.states.ts'
import { publishDeployment, publishRoutes } from './serving-events.ts'
import { startValidation } from './validation.service.ts'

export interface DeployInput {
  deploymentId: string
  endpointId: string
  tenantId: string
  generation: number
  action: DeploymentAction
}

type Deploy = StepRun<DeployInput>

const pollMs = 150
/** Looking at a replica takes a request to it: a hundred are looked at less often than one. */
const pauseMs = (replicas: number) => pollMs * (1 + Math.floor(replicas / 10))
/** How long a deployment waits for the next of its replicas to be ready. */
const readyTimeoutMs = 600_000

/** Brings an endpoint to what a change wants of it. A later change takes over; this one then fails as superseded. */
export const deployRun = defineRun<DeployInput>({
  kind: 'serving.deploy',
  steps: [
    step('prepare', 'Unpack the image', prepare),
    step('start', 'Start replicas', start),
    step('ready', 'Wait until they are ready', awaitReady),
    step('drain', 'Drain what is no longer wanted', drain),
    step('finish', 'Tidy up', finish),
  ],
  changed,
})

const refOf = ({ input }: Deploy) => ({ id: input.endpointId, tenantId: input.tenantId })

function requireCurrent(s: Deploy, endpoint: EndpointRow | undefined): EndpointRow {
  if (endpoint?.generation === s.input.generation) return endpoint
  throw conflict('A later change of the endpoint took its place.', { detail: { reason: 'superseded' } })
}

const currentEndpoint = async (s: Deploy): Promise<EndpointRow> =>
  requireCurrent(s, await read(s.ctx, (tx) => findEndpointById(tx, refOf(s))))

async function currentSituation(s: Deploy): Promise<Situation> {
  s.signal.throwIfAborted()
  const situation = await reconcile(s.ctx, refOf(s))
  requireCurrent(s, situation?.endpoint)
  return situation!
}

async function prepare(s: Deploy): Promise<void> {
  const endpoint = await currentEndpoint(s)
  if (endpoint.desired !== 'RUNNING') return s.skip('Nothing is to be started.')
  await s.ctx.adapters.compute.prepareImage(await openImage(s.ctx.blobs, endpoint.imageDigest), s.signal)
  s.log(`image ${endpoint.imageDigest}`)
}

async function start(s: Deploy): Promise<void> {
  const { endpoint, replicas } = await currentSituation(s)
  if (endpoint.desired !== 'RUNNING') return s.skip('Nothing is to be started.')
  s.log(`${replicas.filter(({ state }) => state !== 'DRAINING').length} of ${endpoint.replicas} replicas started`)
}

async function awaitReady(s: Deploy): Promise<void> {
  let [most, deadline] = [0, Date.now() + readyTimeoutMs]
  for (let seen = 0; ; await sleep(pauseMs(seen), undefined, { signal: s.signal })) {
    const { endpoint, replicas } = await currentSituation(s)
    seen = replicas.length
    if (endpoint.desired !== 'RUNNING') return s.skip('Nothing is to be started.')
    const current = replicas.filter(({ imageDigest }) => imageDigest === endpoint.imageDigest)
    const ready = readyOf(current)
    s.progress(Math.min(1, ready / endpoint.replicas), `${ready} of ${endpoint.replicas} replicas are ready`)
    if (ready >= endpoint.replicas) return
    const [failing] = failingOf(endpoint, replicas)
    if (failing) throw conflict(failing.failure?.message, { detail: { reason: 'replica_crashes' } })
    if (ready > most) [most, deadline] = [ready, Date.now() + readyTimeoutMs]
    if (Date.now() > deadline)
      throw conflict(`Only ${ready} of ${endpoint.replicas} replicas came up, and no other in ten minutes.`, {
        detail: { reason: 'not_ready' },
      })
  }
}

async function drain(s: Deploy): Promise<void> {
  let most = 0
  for (; ; await sleep(pollMs, undefined, { signal: s.signal })) {
    const situation = await currentSituation(s)
    const draining = situation.replicas.filter(({ state }) => state === 'DRAINING').length
    most = Math.max(most, draining)
    if (draining === 0) return most === 0 ? s.skip('Nothing was to be drained.') : undefined
    s.progress((most - draining) / most, `${draining} of ${most} replicas are ending`)
    // One that cannot be ended now is tried again, here and by the supervision.
    for (const ended of await Promise.allSettled(
      drained(situation, s.ctx.clock.now()).map((replica) => removeReplica(s.ctx, replica)),
    ))
      if (ended.status === 'rejected') s.log(`a replica could not be ended: ${ended.reason}`)
  }
}

/** What is left when all replicas are as wanted: an endpoint that is to go goes; images no longer served are let go. */
async function finish(s: Deploy): Promise<void> {
  const ctx = s.ctx as TenantCtx
  const { action, tenantId } = s.input
  await transaction(ctx, async (tx) => {
    const endpoint = await lockEndpoint(tx, refOf(s))
    // Done before, and killed before that was written down.
    if (!endpoint && action === 'delete') return
    const current = requireCurrent(s, endpoint)
    const { name, imageId } = current
    if (action === 'delete') {
      await deleteEndpoint(tx, refOf(s))
      await publishRoutes(tx, { tenantId, name })
    }
    if (action === 'delete' || action === 'update') await releaseImage(tx, ctx, holderOf(name))
    if (action === 'update') await holdServedImage(tx, ctx, name, await getReadyImage(tx, ctx, imageId))
    if (action === 'create' || action === 'update') await startValidation(tx, ctx, current)
  })
}

async function changed(tx: Tx, change: RunChange<DeployInput>): Promise<void> {
  const deployment = await findDeployment(tx, change.input.deploymentId)
  if (!deployment) return
  if (change.what === 'step') {
    const { title, message, id } = change.step
    await publishDeployment(tx, deployment, id, message ?? title)
  } else if (change.what === 'run') {
    const states: Record<string, DeploymentState> = { running: 'ROLLING', succeeded: 'READY' }
    const state = states[change.state] ?? 'FAILED'
    const error = state === 'FAILED' ? deploymentError(change.error) : undefined
    const endedAt = state === 'ROLLING' ? undefined : new Date()
    await updateDeployment(tx, deployment.id, { state, error, endedAt })
    await publishDeployment(tx, { ...deployment, state }, error?.step ?? null, error?.message ?? null)
    if (state === 'FAILED') await goBack(tx, deployment)
  }
}

function deploymentError(error: { message: string; step: string | null; detail?: unknown } | null): DeploymentError {
  const reason = (error?.detail as { reason?: string } | undefined)?.reason ?? null
  return { message: error?.message ?? 'It was canceled.', step: error?.step ?? null, reason }
}

/** A new image that does not start gives way to the one that still serves. */
async function goBack(tx: Tx, deployment: DeploymentRow): Promise<void> {
  const { previous, generation, tenantId, endpointId } = deployment
  if (!previous) return
  const endpoint = await lockEndpoint(tx, { id: endpointId, tenantId })
  if (endpoint?.generation === generation) await updateEndpoint(tx, endpoint, previous)
}
