import type { SystemCtx, TenantCtx } from '../context.ts'
import type { Tx } from '../db/transaction.ts'
import { PlatformError } from '../errors.ts'
import {
  RunCanceled,
  type RunChange,
  type RunError,
  type RunKind,
  type RunState,
  type Step,
  type StepRun,
  StepSkipped,
  type StepState,
  WorkerStopping,
} from './define-run.ts'
import {
  appendLog,
  type ClaimedRun,
  endRun,
  loadSteps,
  releaseRun,
  type StepChange,
  updateRunProgress,
  updateStep,
} from './run-store.ts'
import { type Report, type RunTransaction, StepReporter } from './step-reporter.ts'

const interruptionsMax = 5

type StepRow = Awaited<ReturnType<typeof loadSteps>>[number]

/** One claimed run in the hands of this worker. */
export interface Execution {
  run: ClaimedRun
  kind: RunKind
  owner: number
  ctx: TenantCtx | SystemCtx
  signal: AbortSignal
  transact: RunTransaction
}

/** Runs the steps that are left, in order, and ends or releases the run. Never throws. */
export async function executeRun(execution: Execution): Promise<void> {
  const { run, ctx, signal } = execution
  try {
    if (run.interruptions > interruptionsMax) {
      return await finish(execution, 'failed', {
        message: `The server died ${run.interruptions} times while this was under way.`,
        step: null,
      })
    }
    await tell(execution, (tx) => changed(execution, tx, { what: 'run', state: 'running', error: null }))
    const rows = await execution.transact((tx) => loadSteps(tx, run.id))
    const outputs = new Map(
      rows.filter((row) => row.state === 'succeeded').map((row) => [row.stepId, row.output as unknown]),
    )
    for (const step of execution.kind.steps) {
      const row = rows.find((candidate) => candidate.stepId === step.id)
      if (!row || row.state === 'succeeded' || row.state === 'skipped') continue
      signal.throwIfAborted()
      await executeStep(execution, step, row, outputs)
    }
    await finish(execution, 'succeeded', null)
  } catch (error) {
    await settle(execution, error).catch((cause) =>
      ctx.log.error({ err: cause, run: run.id }, 'a run could not be ended'),
    )
  }
}

class StepFailed extends Error {
  readonly runError: RunError
  constructor(runError: RunError) {
    super(runError.message)
    this.runError = runError
  }
}

class OwnershipLost extends Error {}

async function settle(execution: Execution, error: unknown): Promise<void> {
  const reason = execution.signal.aborted ? execution.signal.reason : error
  if (error instanceof OwnershipLost) return
  if (reason instanceof WorkerStopping)
    return execution.transact((tx) => releaseRun(tx, execution.owner, execution.run.id))
  if (reason instanceof RunCanceled) return finish(execution, 'canceled', { message: reason.message, step: null })
  if (error instanceof StepFailed) return finish(execution, 'failed', error.runError)
  execution.ctx.log.error({ err: error, run: execution.run.id }, 'a run failed outside its steps')
  return finish(execution, 'failed', { message: 'The run could not go on.', step: null })
}

async function finish(execution: Execution, state: RunState, error: RunError | null): Promise<void> {
  const { run, owner } = execution
  await execution.transact(async (tx) => {
    await updateRunProgress(tx, run.id)
    if (await endRun(tx, owner, run.id, { state, error })) await changed(execution, tx, { what: 'run', state, error })
  })
}

async function executeStep(
  execution: Execution,
  step: Step<unknown>,
  row: StepRow,
  outputs: Map<string, unknown>,
): Promise<void> {
  const { ctx, run, signal } = execution
  const tellStep = (change: StepChange) => writeStep(execution, step, row, change)
  const reporter = new StepReporter((report) => writeReport(execution, step, row, report))
  await tellStep({ state: 'running' })
  try {
    const output = await untilAbandoned(execution, step.run(stepRun(execution, row, reporter, outputs)))
    await reporter.flush()
    signal.throwIfAborted()
    outputs.set(step.id, output ?? null)
    await tellStep({ state: 'succeeded', progress: 1, output: output ?? null })
  } catch (error) {
    if (error instanceof OwnershipLost) throw error
    await reporter.flush().catch(() => undefined)
    if (signal.aborted) {
      if (signal.reason instanceof RunCanceled) await tellStep({ state: 'canceled' })
      throw error
    }
    if (error instanceof StepSkipped) return tellStep({ state: 'skipped', progress: 1, message: error.message })
    const runError = runErrorOf(error, step.id)
    ctx.log.warn({ err: error, run: run.id, kind: run.kind, step: step.id }, 'a step failed')
    reporter.log(`${step.title} failed: ${runError.message}`)
    await reporter.flush()
    await tellStep({ state: 'failed', message: runError.message })
    throw new StepFailed(runError)
  }
}

/** After an abort a step gets its time to tidy up; one that does not end is left behind, so the run still ends. */
async function untilAbandoned<T>(execution: Execution, work: Promise<T>): Promise<T> {
  const graceMs = execution.kind.cancelGraceMs ?? 30_000
  const { signal } = execution
  let timer: NodeJS.Timeout | undefined
  const abandoned = new Promise<never>((_resolve, reject) => {
    const arm = () => {
      const wait = signal.reason instanceof WorkerStopping ? Math.min(graceMs, 5000) : graceMs
      timer = setTimeout(() => reject(signal.reason), wait)
    }
    if (signal.aborted) arm()
    else signal.addEventListener('abort', arm, { once: true })
  })
  abandoned.catch(() => undefined)
  try {
    return await Promise.race([work, abandoned])
  } finally {
    clearTimeout(timer)
  }
}

function stepRun(
  execution: Execution,
  row: StepRow,
  reporter: StepReporter,
  outputs: Map<string, unknown>,
): StepRun<unknown> {
  const { ctx, run, signal, owner } = execution
  let saved: unknown = row.saved
  return {
    ctx,
    runId: run.id,
    input: run.input,
    signal,
    output<T>(stepId: string) {
      if (!outputs.has(stepId)) throw new Error(`step ${row.stepId} reads the output of ${stepId}, which has none`)
      return outputs.get(stepId) as T
    },
    saved: <T>() => saved as T | null,
    async save(value) {
      saved = value
      const kept = await execution.transact((tx) => updateStep(tx, owner, run.id, row.stepId, { saved: value }))
      if (!kept) throw new OwnershipLost()
    },
    progress: (fraction, message) => reporter.progress(fraction, message),
    log: (line) => reporter.log(line),
    skip(reason) {
      throw new StepSkipped(reason)
    },
  }
}

async function writeStep(execution: Execution, step: Step<unknown>, row: StepRow, change: StepChange): Promise<void> {
  const { run, owner } = execution
  Object.assign(row, { ...change, message: change.message === undefined ? row.message : change.message })
  await tell(execution, async (tx) => {
    if (!(await updateStep(tx, owner, run.id, step.id, change))) throw new OwnershipLost()
    await updateRunProgress(tx, run.id)
    await changed(execution, tx, { what: 'step', step: stepView(step, row) })
  })
}

async function writeReport(execution: Execution, step: Step<unknown>, row: StepRow, report: Report): Promise<void> {
  const { run, owner } = execution
  await tell(execution, async (tx) => {
    if (report.progress) {
      const { fraction, message } = report.progress
      Object.assign(row, { progress: fraction, message: message ?? row.message })
      if (!(await updateStep(tx, owner, run.id, step.id, { progress: fraction, message: row.message })))
        throw new OwnershipLost()
      await updateRunProgress(tx, run.id)
      await changed(execution, tx, { what: 'step', step: stepView(step, row) })
    }
    if (report.log) {
      const byteOffset = await appendLog(tx, run.id, run.tenantId, report.log)
      await changed(execution, tx, { what: 'log', text: report.log, byteOffset })
    }
  })
}

const stepView = (step: Step<unknown>, row: StepRow) => ({
  id: step.id,
  title: step.title,
  state: row.state as StepState,
  progress: row.progress,
  message: row.message,
})

type Change =
  RunChange<unknown> extends infer C ? (C extends unknown ? Omit<C, 'runId' | 'input' | 'tenantId'> : never) : never

async function changed(execution: Execution, tx: Tx, change: Change): Promise<void> {
  const { run, kind } = execution
  await kind.changed?.(tx, { ...change, runId: run.id, input: run.input, tenantId: run.tenantId } as RunChange<unknown>)
}

const tell = (execution: Execution, work: (tx: Tx) => Promise<void>) => execution.transact(work)

function runErrorOf(error: unknown, stepId: string): RunError {
  if (error instanceof PlatformError) return { message: error.message, step: stepId, detail: error.detail ?? undefined }
  return { message: (error as Error)?.message || 'unknown error', step: stepId }
}
