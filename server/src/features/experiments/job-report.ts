import type { MetricPoint } from './experiment-events.ts'
import type { Artifact, ExperimentChange, ExperimentRow } from './experiments.store.ts'
import { type JobStep, plannedStep } from './step-plan.ts'
import type { TrainerEvent } from './trainer-events.ts'

/** What is known of the job from its events so far. */
export type JobState = Pick<
  ExperimentRow,
  'jobSteps' | 'percent' | 'epoch' | 'epochs' | 'artifacts' | 'result' | 'fault'
>

/** What a batch of events changes, and what is to be told of it, in order. */
export interface JobReport {
  state: JobState
  /** Columns that changed. */
  change: ExperimentChange
  log: string
  points: MetricPoint[]
  /** Steps as they changed; a step that only moved on comes once. */
  steps: JobStep[]
  progress: { percent: number; epoch: number; epochs: number } | null
}

/** Folds events into what was known; changes neither. */
export function reportOf(known: JobState, events: TrainerEvent[]): JobReport {
  const report: JobReport = { state: { ...known }, change: {}, log: '', points: [], steps: [], progress: null }
  for (const event of events) {
    const change = changeOf(report, event)
    Object.assign(report.state, change)
    Object.assign(report.change, change)
  }
  return report
}

function changeOf(report: JobReport, event: TrainerEvent): Partial<JobState> {
  switch (event.type) {
    case 'plan':
      // A job that was started again begins its plan anew.
      return { jobSteps: event.steps.map(({ id, title }) => plannedStep(id, title)), result: null, fault: null }
    case 'step':
      return changeOfStep(report, event)
    case 'progress': {
      const { percent, epoch, epochs } = event
      report.progress = { percent, epoch, epochs }
      return report.progress
    }
    case 'metrics':
      report.points.push(...event.points.map(({ key, step, value, ts }) => ({ key, step, value, timestampMs: ts })))
      return {}
    case 'log':
      report.log += `${event.level === 'info' ? '' : `${event.level}: `}${event.message.replaceAll('\0', '�')}\n`
      return {}
    case 'artifact':
      return { artifacts: withArtifact(report.state.artifacts, event) }
    case 'result':
      return { result: { state: event.state, metrics: event.metrics, best_epoch: event.best_epoch } }
    case 'error':
      return { fault: { message: event.message, remedy: event.remedy } }
    default:
      // A newer trainer may say more than this version understands.
      return {}
  }
}

function changeOfStep(report: JobReport, event: Extract<TrainerEvent, { type: 'step' }>): Partial<JobState> {
  const before = report.state.jobSteps.find(({ id }) => id === event.id)
  if (!before) return {}
  const at = new Date(event.ts).toISOString()
  const isDone = event.state === 'succeeded' || event.state === 'skipped'
  const step: JobStep = {
    ...before,
    state: event.state,
    progress: isDone ? 1 : (event.progress ?? before.progress),
    message: event.message || (event.state === 'running' ? before.message : null),
    started_at: before.started_at ?? at,
    ended_at: event.state === 'running' ? null : at,
  }
  const last = report.steps.at(-1)
  if (last?.id === step.id && last.state === step.state) report.steps.pop()
  report.steps.push(step)
  return { jobSteps: report.state.jobSteps.map((other) => (other === before ? step : other)) }
}

function withArtifact(known: Artifact[], { path, kind, size, sha256 }: Artifact): Artifact[] {
  return [...known.filter((artifact) => artifact.path !== path), { path, kind, size, sha256 }]
}
