import { setTimeout as sleep } from 'node:timers/promises'
import type { SystemCtx } from '../../platform/context.ts'
import { defineRun, type Schedule, type StepRun, step } from '../../platform/runs/define-run.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { type EndpointRef, listServedDigests, listSupervised } from './endpoints.store.ts'
import { drained, reconcile, removeReplica } from './reconcile.ts'
import { attemptOf } from './replica-works.ts'
import { findAttempts } from './replicas.store.ts'
import { compactTraffic } from './traffic.store.ts'

const roundMs = 2000
const sweepEveryMs = 30_000
/** Traffic is kept in buckets of 15 s for so long, then in longer ones; after the longest range it goes. */
const fineTrafficMs = 25 * 3600_000
const trafficKeptMs = 91 * 24 * 3600_000
/** A fresh run takes over then, so that no run grows without end. */
const shiftMs = 24 * 3600_000

/**
 * Looks after every endpoint for as long as a worker lives: crashed replicas are started again, survivors of a dead
 * server are taken over, what belongs to nobody is removed. One run that goes on and on: the engine keeps it at one,
 * and hands it to another worker when its own dies.
 */
export const superviseRun = defineRun<Record<never, never>>({
  kind: 'serving.supervise',
  steps: [step('watch', 'Look after the endpoints', watch)],
})

/** Starts the run where there is none. */
export const superviseSchedule: Schedule = {
  name: 'serving.supervise',
  every: 5000,
  kind: 'serving.supervise',
  input: {},
}

async function watch(s: StepRun<Record<never, never>>): Promise<void> {
  const ctx = s.ctx as SystemCtx
  const round = supervision(ctx)
  let sweepAt = 0
  for (const end = Date.now() + shiftMs; Date.now() < end; await sleep(roundMs, undefined, { signal: s.signal })) {
    await round().catch((error) => ctx.log.warn({ err: error }, 'serving: could not look after the endpoints'))
    if (Date.now() < sweepAt) continue
    sweepAt = Date.now() + sweepEveryMs
    await sweep(ctx).catch((error) => ctx.log.warn({ err: error }, 'serving: could not remove what is left over'))
  }
}

/** A round over all endpoints. One that hangs holds up no other: what is still under way is left out of the next. */
function supervision(ctx: SystemCtx): () => Promise<void> {
  const busy = new Set<string>()
  const once = (key: string, work: () => Promise<unknown>) => {
    if (busy.has(key)) return
    busy.add(key)
    work()
      .catch((error) => ctx.log.warn({ err: error, key }, 'serving: could not look after an endpoint'))
      .finally(() => busy.delete(key))
  }
  const look = async (ref: EndpointRef) => {
    const situation = await reconcile(ctx, ref)
    for (const replica of situation ? drained(situation, ctx.clock.now()) : [])
      once(replica.id, () => removeReplica(ctx, replica))
  }
  return async () => {
    for (const ref of await read(ctx, (tx) => listSupervised(tx))) once(ref.id, () => look(ref))
  }
}

/** Removes works of replicas that are no more or were started anew since, images nobody serves, and old traffic. */
export async function sweep(ctx: SystemCtx): Promise<void> {
  const { compute } = ctx.adapters
  // The list first: a work that is in it had its row before.
  const works = (await compute.list()).flatMap(({ handle }) => {
    const attempt = attemptOf(handle)
    return attempt ? [{ handle, ...attempt }] : []
  })
  const attempts = await read(ctx, (tx) => findAttempts(tx, [...new Set(works.map(({ id }) => id))]))
  for (const { handle, id, attempt } of works) {
    const present = attempts.get(id)
    if (present === undefined || attempt < present) await compute.remove(handle)
  }
  await compute.keepImages(await read(ctx, (tx) => listServedDigests(tx)))
  const now = ctx.clock.now().getTime()
  await transaction(ctx, (tx) => compactTraffic(tx, new Date(now - fineTrafficMs), new Date(now - trafficKeptMs)))
}
