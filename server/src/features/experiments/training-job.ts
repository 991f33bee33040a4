import { setTimeout as sleep } from 'node:timers/promises'
import type { WorkHandle, WorkStatus } from '../../adapters/compute/compute.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { RunCanceled, type StepRun } from '../../platform/runs/define-run.ts'
import { transaction } from '../../platform/transaction.ts'
import { experimentChannel } from './experiment-events.ts'
import { updateExperiment } from './experiments.store.ts'
import { experimentFailure, jobFailure, readLogTail } from './job-failure.ts'
import { type JobRecorder, openJobRecorder } from './job-recorder.ts'
import type { JobState } from './job-report.ts'
import { type Launch, writeSpec } from './launch.ts'
import { workFolder } from './work-folder.ts'

const pollMs = 250
const restartsMax = 2
/** How long a job may take to end its batch, evaluate and export after a stop. */
const stopGraceMs = 15 * 60_000
const recordFailuresMax = 60

/** What the step that watches the job remembers when the server dies. */
interface JobMemory {
  handle: WorkHandle | null
  restarts: number
  /** The lost job of this handle is to be removed before the next one starts. */
  replacing: boolean
  /** RFC 3339. */
  stopSentAt: string | null
}

export interface JobOutcome {
  stopped: boolean
  /** Whether there is an exported model. */
  exported: boolean
}

/**
 * Starts the job, or takes over one that runs already, and follows it to its end. A job that vanished with its machine
 * is started again from its last checkpoint, twice at most. Throws with the reason when it fails.
 */
export async function runJob(
  s: StepRun<{ experimentId: string }>,
  ctx: TenantCtx,
  launch: Launch,
): Promise<JobOutcome> {
  const { experimentId } = s.input
  const { compute } = ctx.adapters
  const folder = workFolder(ctx.config.dataDir, experimentId)
  let memory = s.saved<JobMemory>() ?? { handle: null, restarts: 0, replacing: false, stopSentAt: null }
  const remember = async (change: Partial<JobMemory>) => {
    memory = { ...memory, ...change }
    await s.save(memory)
  }
  for (;;) {
    if (memory.handle && memory.replacing) {
      await compute.remove(memory.handle)
      await remember({ handle: null, replacing: false })
    }
    if (!memory.handle) {
      // Not when a job is taken over: that one runs as it was started, whatever the configuration says now.
      await transaction(ctx, (tx) => updateExperiment(tx, experimentId, { launch }))
      await writeSpec(folder, launch, memory.restarts > 0)
      await remember({ handle: await compute.start(launch.work) })
    }
    const handle = memory.handle!
    const { end, state, stopRequested } = await watch(s, ctx, handle, {
      sentAt: memory.stopSentAt,
      sent: (at) => remember({ stopSentAt: at }),
    })
    if (state.result) return outcomeOf(state)
    if (stopRequested && !state.fault && endedByUs(end)) return { stopped: true, exported: false }
    if (!isLost(end)) throw await failureOf(s, ctx, handle, { end, state })
    if (memory.restarts >= restartsMax) throw lostTooOften(memory.restarts)
    s.log('The job vanished, most likely with its machine: starting it again from its last checkpoint.')
    await remember({ restarts: memory.restarts + 1, replacing: true })
  }
}

const outcomeOf = ({ result, artifacts }: JobState): JobOutcome => ({
  stopped: result?.state === 'stopped',
  exported: artifacts.some((artifact) => artifact.kind === 'model'),
})

const isLost = (end: WorkStatus) => end.state === 'absent' || (end.state === 'ended' && end.reason === 'lost')

/** After a stop a job that is gone is no failure, whether it obeyed, was killed for its slowness, or vanished. */
const endedByUs = (end: WorkStatus) =>
  isLost(end) || (end.state === 'ended' && (end.reason === 'stopped' || end.reason === 'killed'))

/** The failure of the job; its traceback, which is no event, goes to the log. */
async function failureOf(
  s: StepRun<{ experimentId: string }>,
  ctx: TenantCtx,
  handle: WorkHandle,
  job: { end: WorkStatus; state: JobState },
): Promise<Error> {
  const tail = await readLogTail(ctx, handle)
  const traceback = tail.lastIndexOf('Traceback (most recent call last):')
  if (traceback >= 0) for (const line of tail.slice(traceback)) s.log(line)
  return jobFailure(ctx, job, tail)
}

const lostTooOften = (restarts: number) =>
  experimentFailure({
    reason: 'lost',
    message: `The job vanished ${restarts + 1} times.`,
    remedy: 'Look into why this machine restarts or kills processes, then train again.',
  })

interface StopMark {
  sentAt: string | null
  sent(at: string): Promise<void>
}

/** Records what the job says until it has ended and said everything. */
async function watch(
  s: StepRun<{ experimentId: string }>,
  ctx: TenantCtx,
  handle: WorkHandle,
  stop: StopMark,
): Promise<{ end: WorkStatus; state: JobState; stopRequested: boolean }> {
  const { experimentId } = s.input
  const { compute } = ctx.adapters
  const path = workFolder(ctx.config.dataDir, experimentId).events
  let told = false
  const unsubscribe = ctx.events.subscribe(experimentChannel(experimentId), ({ name, data }) => {
    if (name === 'experiment' && (data as { state?: string }).state === 'STOPPING') told = true
  })
  let stopSentAt = stop.sentAt
  const stopIfAsked = async (asked: boolean) => {
    if (asked && !stopSentAt) {
      // Noted first: a second signal would end the job at once, a lost one only lets it finish.
      stopSentAt = new Date().toISOString()
      await stop.sent(stopSentAt)
      compute.stop(handle, stopGraceMs).catch((error) => ctx.log.warn({ err: error }, 'a job could not be stopped'))
    }
    // The one who sent it may have died before its patience did.
    if (stopSentAt && Date.now() - Date.parse(stopSentAt) > stopGraceMs) await compute.kill(handle)
  }
  const recording = recordWithPatience(ctx, experimentId, path)
  try {
    for (;;) {
      if (s.signal.aborted) {
        if (s.signal.reason instanceof RunCanceled) await compute.kill(handle)
        throw s.signal.reason
      }
      const status = await compute.status(handle)
      const recorder = await recording.advance(status.state !== 'running')
      if (recorder && status.state !== 'running')
        return { end: status, state: recorder.state(), stopRequested: told || recorder.stopRequested() }
      if (status.state === 'running') await stopIfAsked(told || (recorder?.stopRequested() ?? false))
      await sleep(pollMs, undefined, { signal: s.signal }).catch(() => undefined)
    }
  } finally {
    unsubscribe()
  }
}

/**
 * A recorder that outlives a database that is away for a while: the job goes on meanwhile, and nothing it says is
 * lost. `advance` gives null while it waits, and throws when it has waited a minute.
 */
function recordWithPatience(ctx: TenantCtx, experimentId: string, path: string) {
  let recorder: JobRecorder | null = null
  let failures = 0
  return {
    async advance(now: boolean): Promise<JobRecorder | null> {
      try {
        recorder ??= await openJobRecorder(ctx, experimentId, path)
        while (await recorder.advance(now)) failures = 0
        return recorder
      } catch (error) {
        // Whether the last write got through is not known, so the next recorder reads where it stands.
        recorder = null
        failures += 1
        if (failures > recordFailuresMax) throw error
        ctx.log.warn({ err: error }, 'what a job says could not be recorded; trying again')
        await sleep(1000)
        return null
      }
    },
  }
}
