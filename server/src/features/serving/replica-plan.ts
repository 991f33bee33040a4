import type { EndpointRow, Failure } from './endpoints.store.ts'
import type { ReplicaChange, ReplicaRow } from './replicas.store.ts'
import type { EndpointState } from './serving.states.ts'

/** Crashes in a row after which a replica counts as failing, though it is tried on. */
export const failuresMax = 3
const startTimeoutMs = 300_000
const unreadyMaxMs = 60_000
/** Of one endpoint so many start at once, so that the first of a hundred serve while the last still wait. */
export const startingMax = 4
/** A replica that has been ready for so long has recovered from its crashes. */
const recoveredMs = 60_000
const backoffMaxMs = 60_000

/** What a look at the work of a replica showed. */
export type Observation =
  | { seen: 'absent' }
  | { seen: 'starting' | 'ready' | 'unready'; address: string | null; message?: string }
  | { seen: 'ended'; failure: Failure }

export interface ReplicaStep {
  change: ReplicaChange | null
  /** The work is to be killed: it hangs. */
  kill: boolean
}

const nothing: ReplicaStep = { change: null, kill: false }

/** What a replica becomes after a look at it. */
export function observe(replica: ReplicaRow, observation: Observation, now: Date): ReplicaStep {
  const { state, since, until, attempt } = replica
  const age = now.getTime() - since.getTime()
  if (state === 'DRAINING') return nothing
  if (state === 'WAITING') {
    if (until !== null && until > now) return nothing
    return { change: { state: 'STARTING', attempt: attempt + 1, since: now, until: null }, kill: false }
  }
  if (observation.seen === 'ended') return { change: crashed(replica, observation.failure, now), kill: false }
  if (observation.seen === 'absent') {
    // One that is to be started is not there yet; any other has vanished.
    if (state === 'STARTING') return nothing
    return { change: crashed(replica, lost(now), now), kill: false }
  }
  if (observation.seen === 'ready') {
    if (state !== 'READY' || replica.address !== observation.address)
      return { change: { state: 'READY', address: observation.address, since: now }, kill: false }
    return replica.failures > 0 && age > recoveredMs ? { change: { failures: 0, failure: null }, kill: false } : nothing
  }
  if (state === 'STARTING') return { change: null, kill: age > startTimeoutMs }
  if (state === 'READY') return { change: { state: 'UNREADY', address: null, since: now }, kill: false }
  return { change: null, kill: age > unreadyMaxMs }
}

function crashed({ failures }: ReplicaRow, failure: Failure, now: Date): ReplicaChange {
  const waitMs = Math.min(backoffMaxMs, 1000 * 2 ** failures)
  const until = new Date(now.getTime() + waitMs)
  return { state: 'WAITING', address: null, failures: failures + 1, failure, since: now, until }
}

const lost = (now: Date): Failure => ({
  message: 'The process vanished.',
  exitCode: null,
  signal: null,
  reason: 'lost',
  at: now.toISOString(),
})

export interface Plan {
  /** How many replicas to add, of the endpoint's present image. */
  create: number
  drain: ReplicaRow[]
}

/**
 * What brings an endpoint nearer to what is wanted: new replicas come before old ones go, so at every moment as many
 * are ready as were before, or as are wanted.
 */
export function planReplicas(
  endpoint: Pick<EndpointRow, 'desired' | 'replicas' | 'imageDigest'>,
  replicas: ReplicaRow[],
): Plan {
  const wanted = endpoint.desired === 'RUNNING' ? endpoint.replicas : 0
  const live = replicas.filter(({ state }) => state !== 'DRAINING')
  const current = live.filter(({ imageDigest }) => imageDigest === endpoint.imageDigest)
  const old = live.filter(({ imageDigest }) => imageDigest !== endpoint.imageDigest)
  const readyCurrent = current.filter(({ state }) => state === 'READY').length
  const oldKept = Math.max(0, wanted - readyCurrent)
  return {
    create: Math.max(0, wanted - current.length),
    drain: [...leastUseful(old, old.length - oldKept), ...leastUseful(current, current.length - wanted)],
  }
}

/** How many more replicas of an endpoint may start now. */
export const startRoom = (replicas: ReplicaRow[]): number =>
  Math.max(0, startingMax - replicas.filter(({ state }) => state === 'STARTING').length)

const usefulness = { READY: 3, STARTING: 2, UNREADY: 1, WAITING: 0, DRAINING: 0 }

/** The replicas to part with first: those that do not answer, then the youngest. */
function leastUseful(replicas: ReplicaRow[], count: number): ReplicaRow[] {
  if (count <= 0) return []
  return [...replicas]
    .sort((a, b) => usefulness[a.state] - usefulness[b.state] || b.createdAt.getTime() - a.createdAt.getTime())
    .slice(0, count)
}

export const readyOf = (replicas: ReplicaRow[]): number => replicas.filter(({ state }) => state === 'READY').length

/** Replicas of the present image that crash again and again. */
export const failingOf = (endpoint: Pick<EndpointRow, 'imageDigest'>, replicas: ReplicaRow[]): ReplicaRow[] =>
  replicas.filter(
    ({ imageDigest, failures, state }) =>
      imageDigest === endpoint.imageDigest && failures >= failuresMax && state !== 'READY' && state !== 'DRAINING',
  )

/** The public state. While a deployment is rolling, what is not there yet is no fault. @source contract B12.3 */
export function endpointState(
  endpoint: Pick<EndpointRow, 'desired' | 'replicas' | 'imageDigest' | 'state'>,
  replicas: ReplicaRow[],
  rolling: boolean,
): EndpointState {
  if (endpoint.desired === 'DELETED') return 'DELETING'
  if (endpoint.desired === 'STOPPED') return 'STOPPED'
  const ready = readyOf(replicas)
  if (ready >= endpoint.replicas) return 'RUNNING'
  if (ready === 0) {
    if (failingOf(endpoint, replicas).length > 0) return 'FAILED'
    return replicas.some(({ state }) => state !== 'DRAINING') ? 'CONNECTING' : endpoint.state
  }
  const before = endpoint.state
  return rolling && (before === 'RUNNING' || before === 'CONNECTING') ? before : 'DEGRADED'
}

/** Why the endpoint is not RUNNING: the newest failure of its replicas. */
export function endpointError(state: EndpointState, replicas: ReplicaRow[]): Failure | null {
  if (state === 'RUNNING' || state === 'STOPPED' || state === 'DELETING') return null
  const failures = replicas.flatMap(({ failure, state }) => (failure && state !== 'DRAINING' ? [failure] : []))
  return failures.sort((a, b) => (a.at < b.at ? 1 : -1))[0] ?? null
}
