import { systemClock } from '../../platform/clock.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import type { RunChange, RunError } from '../../platform/runs/define-run.ts'
import { noteDatasetUsage } from '../datasets/datasets.api.ts'
import { notify } from '../notifications/notifications.api.ts'
import { endTrackerRun } from '../tracker/tracker.api.ts'
import { publishLog, publishState, publishStep } from './experiment-events.ts'
import { type ExperimentState, endState, isEndedState } from './experiments.states.ts'
import {
  type ExperimentError,
  type ExperimentRow,
  findTenantCode,
  lockExperiment,
  moveExperiment,
  updateExperiment,
} from './experiments.store.ts'
import type { FailureDetail } from './job-failure.ts'
import { jobStepId } from './step-plan.ts'

/** Keeps the experiment, its events, its tracker run and the use of its dataset in step with its run. */
export async function followRun(tx: Tx, change: RunChange<{ experimentId: string }>): Promise<void> {
  const { experimentId } = change.input
  if (change.what === 'log') return publishLog(tx, experimentId, change.text, change.byteOffset)
  if (change.what === 'step') {
    if (change.step.id !== jobStepId) return publishStep(tx, experimentId, change.step)
    if (change.step.state === 'running') await move(tx, experimentId, 'STAGING', 'RUNNING')
    return
  }
  if (change.state === 'running') return move(tx, experimentId, 'PENDING', 'STAGING')
  if (change.state !== 'pending') await endExperiment(tx, experimentId, change.state, change.error)
}

async function move(tx: Tx, id: string, from: ExperimentState, to: ExperimentState): Promise<void> {
  if (await moveExperiment(tx, id, [from], to)) await publishState(tx, id, to)
}

const trackerStatus = { SUCCEEDED: 'FINISHED', STOPPED: 'FINISHED', FAILED: 'FAILED', KILLED: 'KILLED' } as const

/** Ends an experiment as its run does; one that waited has ended before its run, which needs a worker for that. */
export async function endExperiment(
  tx: Tx,
  id: string,
  run: 'succeeded' | 'failed' | 'canceled',
  error: RunError | null,
): Promise<void> {
  const experiment = await lockExperiment(tx, id)
  if (!experiment || isEndedState(experiment.state)) return
  const state = endState(run, {
    finished: experiment.result?.state === 'succeeded',
    killRequested: experiment.killRequestedAt !== null,
  }) as keyof typeof trackerStatus
  await updateExperiment(tx, id, {
    state,
    endedAt: systemClock.now(),
    ...(state === 'FAILED' && error ? { error: errorOf(error) } : {}),
  })
  await closeBooks(tx, experiment, trackerStatus[state])
  await publishState(tx, id, state)
  await tellOwner(tx, experiment, state, error)
}

/** A stop is no news to anybody. */
async function tellOwner(
  tx: Tx,
  { id, tenantId, name, createdById, registeredName, registeredVersion }: ExperimentRow,
  state: ExperimentState,
  error: RunError | null,
): Promise<void> {
  if (state === 'STOPPED' || !createdById) return
  const outcomes: Record<string, string> = { SUCCEEDED: 'is trained', FAILED: 'failed', KILLED: 'was killed' }
  const registered = registeredVersion ? `Registered as ${registeredName} version ${registeredVersion}.` : null
  await notify(tx, {
    tenantId,
    to: { userIds: [createdById] },
    group: 'training',
    title: `${name} ${outcomes[state]}`,
    body: state === 'SUCCEEDED' ? registered : (error?.message ?? null),
    link: `/experiments/${id}`,
    dedupeKey: `experiment:${id}`,
  })
}

/** What other features keep about a training that runs. */
async function closeBooks(
  tx: Tx,
  experiment: ExperimentRow,
  status: (typeof trackerStatus)[keyof typeof trackerStatus],
): Promise<void> {
  const { tenantId } = experiment
  const tenant = { id: tenantId, code: await findTenantCode(tx, tenantId) }
  const actor = { userId: '', email: experiment.createdBy, fullName: null, isSuperuser: false, sessionId: null }
  const ctx = { tenant, actor, clock: systemClock }
  await endTrackerRun(tx, ctx, experiment.trackerRunId, status)
  await noteDatasetUsage(tx, ctx as TenantCtx, {
    datasetId: experiment.datasetId,
    experimentId: experiment.id,
    experimentName: experiment.name,
    state: 'ended',
  })
}

function errorOf(error: RunError): ExperimentError {
  const known: FailureDetail = { step: null, reason: 'platform', remedy: null, exit_code: null, log_tail: [] }
  const detail = isFailureDetail(error.detail) ? error.detail : known
  const { reason, remedy, exit_code, log_tail } = detail
  return { step: detail.step ?? error.step, reason, message: error.message, remedy, exit_code, log_tail }
}

const isFailureDetail = (detail: unknown): detail is FailureDetail =>
  typeof detail === 'object' && detail !== null && 'log_tail' in detail && 'reason' in detail
