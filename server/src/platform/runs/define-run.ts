import type { SystemCtx, TenantCtx } from '../context.ts'
import type { Tx } from '../db/transaction.ts'

export type RunState = 'pending' | 'running' | 'succeeded' | 'failed' | 'canceled'
export type StepState = RunState | 'skipped'

export const endedRunStates: readonly RunState[] = ['succeeded', 'failed', 'canceled']

/** What a step gets. Everything it does must bear being done again: it starts anew when its worker died. */
export interface StepRun<Input> {
  ctx: TenantCtx | SystemCtx
  runId: string
  input: Input
  /** Fires when the run is to be canceled or the process shuts down; let the error of the signal pass through. */
  signal: AbortSignal
  /** Output of an earlier step of this run; throws when that step has not succeeded. */
  output<T>(stepId: string): T
  /** What this step saved before it was interrupted, or null. */
  saved<T>(): T | null
  /** Remembers something across interruptions at once, such as the handle of work that was started. */
  save(value: unknown): Promise<void>
  /** How far the step is, from 0 to 1, and what it is doing. Cheap: what comes too often is left out. */
  progress(fraction: number, message?: string): void
  /** A line of the run's log. */
  log(line: string): void
  /** Ends the step as skipped. */
  skip(reason: string): never
}

export interface Step<Input> {
  id: string
  title: string
  /** What it returns is its output: plain JSON, read by later steps. */
  run(s: StepRun<Input>): Promise<unknown>
}

/** A change of a run as the feature that owns it hears of it, inside the same transaction. */
export type RunChange<Input> = { runId: string; input: Input; tenantId: string | null } & (
  | { what: 'run'; state: RunState; error: RunError | null }
  | { what: 'step'; step: { id: string; title: string; state: StepState; progress: number; message: string | null } }
  | { what: 'log'; text: string; byteOffset: number }
)

export interface RunError {
  message: string
  step: string | null
  detail?: unknown
}

export interface RunKind<Input = unknown> {
  /** `noun.verb`. */
  kind: string
  steps: Step<Input>[]
  /** Most runs of this kind at once in one worker process; no limit when absent. */
  maxConcurrent?: number
  /** How long after a cancel a step may still tidy up before it is abandoned. */
  cancelGraceMs?: number
  /** Keeps the feature's own row and events in step with the run. */
  changed?(tx: Tx, change: RunChange<Input>): Promise<void>
}

/** Declares a kind of run. @source house.md §5 */
// biome-ignore lint/suspicious/noExplicitAny: kinds of all inputs stand in one list
export function defineRun<Input>(kind: RunKind<Input>): RunKind<any> {
  const ids = kind.steps.map((step) => step.id)
  if (new Set(ids).size !== ids.length) throw new Error(`${kind.kind} has two steps of one id`)
  return kind
}

export function step<Input>(id: string, title: string, run: Step<Input>['run']): Step<Input> {
  return { id, title, run }
}

/** Work that comes again: every so many milliseconds, or at the times of a cron expression (UTC). */
export interface Schedule {
  /** Unique; also the subject of its runs, so that a slow one never overlaps itself. */
  name: string
  every: number | string
  kind: string
  input: unknown
}

/** The run was told to end. */
export class RunCanceled extends Error {
  constructor(reason: string) {
    super(reason)
    this.name = 'RunCanceled'
  }
}

/** The process ends; the run goes on in another one at the same step. */
export class WorkerStopping extends Error {
  constructor() {
    super('the worker is stopping')
    this.name = 'WorkerStopping'
  }
}

export class StepSkipped extends Error {}
