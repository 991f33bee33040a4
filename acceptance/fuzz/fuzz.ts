import { type Cast, createCast, type Root } from './cast.ts'
import { type DescribedOperation, readDocument } from './document.ts'
import { createMemory, type Memory } from './memory.ts'
import { type Random, randomOf } from './random.ts'
import { type Attempt, compose, composeForeign } from './requests.ts'
import { judge } from './verdict.ts'
import { curlOf, send, type WireAnswer } from './wire.ts'

export interface FuzzOptions extends Root {
  seed: number
  /** Most requests of each lane. */
  requests?: number
  /** When to end at the latest. */
  seconds?: number
  /** How many work at the same time, each with a tenant and choices of its own. */
  lanes: number
  /** Only operations whose id matches. */
  only?: RegExp
  /** Puts into a fresh tenant what can't be made by requests alone. */
  prepare?(tenantCode: string): Promise<void>
  /** Called for each kind of fault when it is first met. */
  onFault?(fault: Fault): void
}

export interface Fault {
  operation: string
  fault: string
  shown: string
  curl: string
  /** How often it was met. */
  times: number
}

export interface FuzzResult {
  requests: number
  faults: Fault[]
  /** Operation → status → how often. */
  statuses: Map<string, Map<number, number>>
  slowest: { operation: string; ms: number }[]
}

const requestsPerLook = 300

/** Sends made-up requests to every described operation until the time is over or all are sent. */
export async function fuzz(options: FuzzOptions): Promise<FuzzResult> {
  const document = await send(options.url, { method: 'GET', target: '/openapi.json', headers: {}, body: null })
  const all = readDocument(JSON.parse(document.text))
  const operations = all.filter(({ id }) => options.only?.test(id) ?? true)
  const result = createResult(options)
  const end = Date.now() + (options.seconds ?? Number.POSITIVE_INFINITY) * 1000
  const lanes = Array.from({ length: options.lanes }, (_, lane) => {
    let left = options.requests ?? Number.POSITIVE_INFINITY
    const goesOn = () => left-- > 0 && Date.now() < end
    return runLane(options, lane, operations, goesOn, result.take)
  })
  await Promise.all(lanes)
  return result.value()
}

type Take = (attempt: Attempt, answer: WireAnswer | Error) => void

async function runLane(
  options: FuzzOptions,
  lane: number,
  operations: DescribedOperation[],
  goesOn: () => boolean,
  take: Take,
): Promise<void> {
  const random = randomOf(options.seed * 1000 + lane)
  const weighted = operations.flatMap((operation) => Array<DescribedOperation>(weightOf(operation)).fill(operation))
  let more = true
  for (let generation = 0; more; generation++) {
    const name = `fuzz-${options.seed}-${lane}-${generation}-${Date.now().toString(36)}`
    const cast = await createCast(options, name)
    await options.prepare?.(name)
    const memory = createMemory(operations)
    let intact = true
    for (let count = 1; intact && more; count++) {
      intact = await step(options, random, random.pick(weighted), cast, memory, take)
      more = goesOn()
      if (count % requestsPerLook === 0) intact &&= await cast.intact()
    }
  }
}

const isJson = ({ headers, text }: WireAnswer) =>
  text !== '' && String(headers['content-type']).startsWith('application/json')

/** What makes and lists things comes often; what ends them seldom, or there would be nothing to work on. */
function weightOf({ id, method }: DescribedOperation): number {
  if (/^auth\.|delete|disable|remove|revoke|deletion/i.test(id)) return 1
  return method === 'POST' ? 4 : 3
}

/** One request and what its answer teaches; false when the one who sent it can not sign in any more. */
async function step(
  options: FuzzOptions,
  random: Random,
  operation: DescribedOperation,
  cast: Cast,
  memory: Memory,
  take: Take,
): Promise<boolean> {
  const actor = random.chance(0.75) ? (operation.global ? cast.global : cast.admin) : random.pick(cast.actors)
  const foreign = random.chance(0.1) ? composeForeign(random, operation, cast.stranger, memory) : null
  const attempt = foreign ?? compose(random, operation, actor, memory)
  // The administrator who makes every cast must stay.
  if (attempt.wire.target.includes(cast.rootId)) return true
  const answer = await send(options.url, attempt.wire).catch((error: Error) => error)
  take(attempt, answer)
  if (answer instanceof Error) return true
  if (answer.status < 300 && attempt.faithful && isJson(answer)) {
    const body = JSON.parse(answer.text)
    if (attempt.actor !== cast.stranger) memory.learn(operation, attempt.params, body)
    else if (operation.method === 'POST' && !operation.path.includes('{')) memory.learnForeign(body)
  }
  return answer.status !== 401 || attempt.actor.token === null || cast.signIn(attempt.actor)
}

function createResult(options: FuzzOptions) {
  const faults = new Map<string, Fault>()
  const statuses = new Map<string, Map<number, number>>()
  const slowest: { operation: string; ms: number }[] = []
  let requests = 0
  const add = (attempt: Attempt, fault: string, shown: string) => {
    const key = `${attempt.operation.id} ${fault}`
    const known = faults.get(key)
    if (known) known.times += 1
    else {
      const { id } = attempt.operation
      const first = { operation: id, fault, shown, curl: curlOf(options.url, attempt.wire), times: 1 }
      faults.set(key, first)
      options.onFault?.(first)
    }
  }
  const take: Take = (attempt, answer) => {
    requests += 1
    if (answer instanceof Error) return add(attempt, 'no answer', answer.message)
    const { id } = attempt.operation
    const counts = statuses.get(id) ?? new Map<number, number>()
    statuses.set(id, counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1))
    slowest.push({ operation: `${id} ${answer.status}`, ms: answer.ms })
    if (slowest.length > 2000) slowest.sort((a, b) => b.ms - a.ms).splice(10)
    for (const { fault, shown } of judge(attempt, answer)) add(attempt, fault, shown)
  }
  const value = (): FuzzResult => ({
    requests,
    faults: [...faults.values()],
    statuses,
    slowest: slowest.sort((a, b) => b.ms - a.ms).slice(0, 10),
  })
  return { take, value }
}
