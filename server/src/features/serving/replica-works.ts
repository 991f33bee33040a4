import type { WorkHandle, WorkStatus } from '../../adapters/compute/compute.ts'
import type { Services } from '../../platform/context.ts'
import { openImage } from '../images/images.api.ts'
import type { EndpointRow, Failure } from './endpoints.store.ts'
import type { Observation } from './replica-plan.ts'
import type { ReplicaRow } from './replicas.store.ts'

const workName = /^serve-([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})-(\d+)$/
const pingTimeoutMs = 5000
/** What a replica has, after it was asked to end, for the requests it has taken. */
const stopGraceMs = 35_000

type Attempt = Pick<ReplicaRow, 'id' | 'attempt'>

/** The work of one attempt of a replica; a driver knows it by name alone. */
export const handleOf = ({ id, attempt }: Attempt): WorkHandle => ({
  driver: '',
  name: `serve-${id.replaceAll('-', '')}-${attempt}`,
})

/** Which attempt of which replica a work is; null when it is none of ours. */
export function attemptOf({ name }: WorkHandle): Attempt | null {
  const match = workName.exec(name)
  return match && { id: match.slice(1, 6).join('-'), attempt: Number(match[6]) }
}

/** Starts the work, once, from the image of the replica; what is left of the attempt before is removed. */
export async function startWork(services: Services, endpoint: EndpointRow, replica: ReplicaRow): Promise<void> {
  const { compute } = services.adapters
  const { servingMemoryBytes } = services.config
  if (replica.attempt > 1) await compute.remove(handleOf({ ...replica, attempt: replica.attempt - 1 }))
  await compute.start({
    name: handleOf(replica).name,
    command: [],
    image: await openImage(services.blobs, replica.imageDigest),
    env: {},
    listens: true,
    limits: servingMemoryBytes > 0 ? { memoryBytes: servingMemoryBytes } : {},
    labels: { tenant: endpoint.tenantId, kind: 'serving', endpoint: endpoint.name, replica: replica.id },
  })
}

/** Lets the work end what it has, and frees everything it kept. */
export async function endWork(services: Services, replica: Attempt): Promise<void> {
  const { compute } = services.adapters
  await compute.stop(handleOf(replica), stopGraceMs)
  await compute.remove(handleOf(replica))
}

/** Looks whether the work lives and answers. */
export async function lookAtWork(services: Services, replica: ReplicaRow): Promise<Observation> {
  const status = await services.adapters.compute.status(handleOf(replica))
  if (status.state === 'absent') return { seen: 'absent' }
  if (status.state === 'ended') return { seen: 'ended', failure: await failureOf(services, replica, status) }
  const address = status.address ?? null
  if (address === null) return { seen: 'starting', address }
  const fault = await ping(address)
  if (fault === null) return { seen: 'ready', address }
  return { seen: replica.state === 'STARTING' ? 'starting' : 'unready', address, message: fault }
}

/** Null when it is ready, or why it is not. */
async function ping(address: string): Promise<string | null> {
  try {
    // A replica must not send us elsewhere.
    const init: RequestInit = { redirect: 'manual', signal: AbortSignal.timeout(pingTimeoutMs) }
    const answer = await fetch(`http://${address}/ping`, init)
    await answer.body?.cancel()
    return answer.ok ? null : `it answers ${answer.status}`
  } catch (error) {
    return (error as Error).name === 'TimeoutError' ? 'it does not answer in time' : 'it cannot be reached'
  }
}

async function failureOf(
  services: Services,
  replica: ReplicaRow,
  end: Extract<WorkStatus, { state: 'ended' }>,
): Promise<Failure> {
  const tail = await services.adapters.compute.logs(handleOf(replica), -2000, 2000)
  const lastLine = tail.toString('utf8').trim().split('\n').at(-1)?.trim().slice(0, 300)
  const how = {
    memory: 'It needed more memory than a replica may have.',
    time: 'It took too long.',
    lost: 'The process vanished.',
    stopped: 'It was stopped.',
    killed: 'It was killed.',
    exited: end.signal ? `It was ended by ${end.signal}.` : `It ended with exit code ${end.exitCode}.`,
  }[end.reason]
  const message = lastLine ? `${how} Its last words: ${lastLine}` : how
  return { message, exitCode: end.exitCode, signal: end.signal, reason: end.reason, at: end.endedAt }
}
