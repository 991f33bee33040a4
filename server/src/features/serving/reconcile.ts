import { isDeepStrictEqual } from 'node:util'
import type { SystemCtx, TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { notify } from '../notifications/notifications.api.ts'
import { isRolling } from './deployments.store.ts'
import { type EndpointRef, type EndpointRow, type Failure, lockEndpoint, updateEndpoint } from './endpoints.store.ts'
import { endpointError, endpointState, type Observation, observe, planReplicas, startRoom } from './replica-plan.ts'
import { endWork, handleOf, lookAtWork, startWork } from './replica-works.ts'
import {
  deleteReplica,
  findReplica,
  insertReplicas,
  listReplicas,
  type ReplicaRow,
  updateReplica,
} from './replicas.store.ts'
import { publishRoutes } from './serving-events.ts'

export type ServingCtx = SystemCtx | TenantCtx

/**
 * How long a replica that takes no new requests goes on unasked: proxies of other processes hear of it within that
 * time even when a notification is lost. More than `routeMaxAgeMs`.
 */
export const settleMs = 3000

/**
 * A look that finds everything as it was is written down this seldom: the endpoint's ETag lives as long, and an idle
 * endpoint costs no writes.
 */
const unchangedNotedEveryMs = 60_000

export interface Situation {
  endpoint: EndpointRow
  replicas: ReplicaRow[]
}

/**
 * One round of bringing an endpoint to what is wanted of it: look at its works, record what they do, add and drain
 * replicas, start what is to be started. Any number of processes may do it at once: rows are changed under the lock of
 * the endpoint, and a work is started under the name of its row, so once. Null when there is no such endpoint.
 * `asked` says that somebody wants to read when this was.
 */
export async function reconcile(
  ctx: ServingCtx,
  ref: EndpointRef,
  { asked = false }: { asked?: boolean } = {},
): Promise<Situation | null> {
  const before = await read(ctx, (tx) => listReplicas(tx, ref))
  const observations = new Map(
    await Promise.all(
      before.map(async (replica) => [keyOf(replica), { replica, found: await lookAtWork(ctx, replica) }] as const),
    ),
  )
  const kills: ReplicaRow[] = []
  const situation = await transaction({ ...ctx, audit: null }, async (tx) => {
    kills.length = 0
    const endpoint = await lockEndpoint(tx, ref)
    if (!endpoint) return null
    const present = await listReplicas(tx, ref)
    let room = startRoom(present)
    for (const replica of present) {
      const observation = observations.get(keyOf(replica))
      if (!observation) continue
      const step = observe(replica, observation.found, ctx.clock.now())
      if (step.kill) kills.push(replica)
      if (step.change?.state === 'STARTING' && --room < 0) continue
      if (step.change) await updateReplica(tx, replica.id, step.change)
    }
    return settle(tx, ctx, endpoint, { before, asked })
  })
  for (const replica of kills) await ctx.adapters.compute.kill(handleOf(replica))
  if (situation) await startWorks(ctx, situation, observations)
  return situation
}

const keyOf = ({ id, attempt }: ReplicaRow) => `${id}/${attempt}`

/** Adds and drains replicas and writes down the state of the endpoint, under its lock. */
async function settle(
  tx: Tx,
  ctx: ServingCtx,
  endpoint: EndpointRow,
  { before, asked }: { before: ReplicaRow[]; asked: boolean },
): Promise<Situation> {
  const now = ctx.clock.now()
  const { tenantId, id: endpointId, imageDigest } = endpoint
  const present = await listReplicas(tx, endpoint)
  const plan = planReplicas(endpoint, present)
  const room = startRoom(present)
  await insertReplicas(
    tx,
    Array.from({ length: plan.create }, (_, index) => ({
      ...{ id: newId(), tenantId, endpointId, imageDigest, since: now },
      ...(index < room ? { state: 'STARTING', attempt: 1 } : { state: 'WAITING', attempt: 0 }),
    })),
  )
  for (const { id } of plan.drain) await updateReplica(tx, id, { state: 'DRAINING', address: null, since: now })
  const replicas = await listReplicas(tx, endpoint)
  const rolling = await isRolling(tx, endpoint, endpoint.generation)
  const state = endpointState(endpoint, replicas, rolling)
  const error = endpointError(state, replicas)
  const isNoted = endpoint.checkedAt !== null && now.getTime() - endpoint.checkedAt.getTime() < unchangedNotedEveryMs
  const isSame = state === endpoint.state && isDeepStrictEqual(error, endpoint.error)
  const checkedAt = isSame && isNoted && !asked ? endpoint.checkedAt : now
  if (checkedAt === now) await updateEndpoint(tx, endpoint, { state, error, checkedAt })
  if (state !== endpoint.state || addressesOf(replicas) !== addressesOf(before)) await publishRoutes(tx, endpoint)
  if (state !== endpoint.state && (state === 'FAILED' || state === 'DEGRADED'))
    await tellOperators(tx, endpoint, state, error, now)
  return { endpoint: { ...endpoint, state, error, checkedAt }, replicas }
}

/** At most once an hour for each state, however often it comes and goes. */
function tellOperators(
  tx: Tx,
  { id, tenantId, name }: EndpointRow,
  state: 'FAILED' | 'DEGRADED',
  error: Failure | null,
  now: Date,
): Promise<void> {
  return notify(tx, {
    tenantId,
    to: { permission: 'OPERATE' },
    group: 'serving',
    title: `Endpoint ${name} is ${state}`,
    body: error?.message ?? null,
    link: `/serving/${name}`,
    dedupeKey: `endpoint:${id}:${state}:${Math.floor(now.getTime() / 3600_000)}`,
  })
}

const addressesOf = (replicas: ReplicaRow[]): string =>
  replicas.flatMap(({ id, state, address }) => (state === 'READY' ? [`${id} ${address}`] : [])).join(',')

async function startWorks(
  ctx: ServingCtx,
  { endpoint, replicas }: Situation,
  observations: Map<string, { found: Observation }>,
): Promise<void> {
  const absent = replicas.filter(
    (replica) =>
      replica.state === 'STARTING' && (observations.get(keyOf(replica))?.found.seen ?? 'absent') === 'absent',
  )
  await Promise.all(
    absent.map(async (replica) => {
      // It may have been drained and removed while we looked elsewhere.
      const still = await read(ctx, (tx) => findReplica(tx, replica.id))
      if (still?.state !== 'STARTING' || still.attempt !== replica.attempt) return
      await startWork(ctx, endpoint, replica).catch((error) => recordStartFailure(ctx, replica, error))
    }),
  )
}

/** A replica that cannot even be started waits like one that crashed. */
async function recordStartFailure(ctx: ServingCtx, replica: ReplicaRow, error: Error): Promise<void> {
  ctx.log.warn({ err: error, replica: replica.id }, 'serving: a replica could not be started')
  const now = ctx.clock.now()
  const failure: Failure = {
    message: `It could not be started: ${error.message}`,
    exitCode: null,
    signal: null,
    reason: 'not_started',
    at: now.toISOString(),
  }
  await transaction(ctx, async (tx) => {
    await lockEndpoint(tx, { id: replica.endpointId, tenantId: replica.tenantId })
    const present = await findReplica(tx, replica.id)
    // It may be draining by now, or another process was luckier with it.
    if (present?.state !== 'STARTING' || present.attempt !== replica.attempt) return
    const { change } = observe(present, { seen: 'ended', failure }, now)
    if (change) await updateReplica(tx, replica.id, change)
  })
}

/** Replicas that have drained long enough to be ended. */
export const drained = ({ replicas }: Situation, now: Date): ReplicaRow[] =>
  replicas.filter(({ state, since }) => state === 'DRAINING' && now.getTime() - since.getTime() >= settleMs)

/** Ends the work of a drained replica, when its last requests are answered, and forgets it. */
export async function removeReplica(ctx: ServingCtx, replica: ReplicaRow): Promise<void> {
  await endWork(ctx, replica)
  await transaction(ctx, (tx) => deleteReplica(tx, replica.id))
}
