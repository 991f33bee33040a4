import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { appendLog } from '../../platform/runs/run-store.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { logTrackerMetrics } from '../tracker/tracker.api.ts'
import { publishLog, publishMetrics, publishProgress, publishStep } from './experiment-events.ts'
import { advanceEvents, type ExperimentRow, findExperiment } from './experiments.store.ts'
import { type JobReport, type JobState, reportOf } from './job-report.ts'
import { readTrainerEvents, type TrainerEvent } from './trainer-events.ts'

/** Somebody else reads the events of this job now. */
export class RecordingLost extends Error {}

/** Takes over what a job says, exactly once. */
export interface JobRecorder {
  /**
   * Writes what the job said since the last time; whether there was anything to write. What comes in a stream waits
   * until a second has passed since the last write, unless it is asked for `now`. Throws RecordingLost.
   */
  advance(now: boolean): Promise<boolean>
  /** Whether a stop was asked for, as far as the last write has shown. */
  stopRequested(): boolean
  state(): JobState
}

const streamEveryMs = 1000

/**
 * Follows the event file of an experiment's job from where the last recorder got to. Metrics, log, steps and the
 * position in the file are one transaction, so nothing is lost or doubled however the server ends.
 */
export async function openJobRecorder(ctx: TenantCtx, experimentId: string, path: string): Promise<JobRecorder> {
  const row = await read(ctx, (tx) => findExperiment(tx, ctx.tenant.id, experimentId))
  if (!row) throw new RecordingLost('the experiment is gone')
  let offset = row.eventsOffset
  let state: JobState = row
  let stopRequested = row.stopRequestedAt !== null
  let wroteAt = 0
  return {
    state: () => state,
    stopRequested: () => stopRequested,
    async advance(now) {
      const { events, nextOffset } = await readTrainerEvents(path, offset)
      if (nextOffset === offset) return false
      if (!now && Date.now() - wroteAt < streamEveryMs && events.every(isOfStream)) return false
      const report = reportOf(state, events)
      const range = { from: offset, to: nextOffset }
      const taken = await transaction(ctx, (tx) => writeReport(tx, ctx, row, range, report))
      wroteAt = Date.now()
      offset = nextOffset
      state = report.state
      stopRequested = taken.stopRequestedAt !== null
      return true
    },
  }
}

/** Comes all the time and changes nothing but figures: a transaction for each would cost the training its processor. */
const isOfStream = (event: TrainerEvent): boolean =>
  event.type === 'metrics' || event.type === 'progress' || (event.type === 'step' && event.state === 'running')

type Subject = Pick<ExperimentRow, 'id' | 'tenantId' | 'runId' | 'trackerRunId'>

async function writeReport(
  tx: Tx,
  ctx: TenantCtx,
  { id, tenantId, runId, trackerRunId }: Subject,
  range: { from: number; to: number },
  { change, log, points, steps, progress }: JobReport,
): Promise<{ stopRequestedAt: Date | null }> {
  const taken = await advanceEvents(tx, id, range, change)
  if (!taken) throw new RecordingLost('another process records this job')
  if (points.length > 0) {
    await logTrackerMetrics(tx, ctx, trackerRunId, points)
    await publishMetrics(tx, id, points)
  }
  if (log) await publishLog(tx, id, log, await appendLog(tx, runId, tenantId, log))
  for (const step of steps) await publishStep(tx, id, step)
  if (progress) await publishProgress(tx, id, progress)
  return taken
}
