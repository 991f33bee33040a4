import type { StepView } from '../../platform/runs/runs.ts'
import { isEndedState } from './experiments.states.ts'

/** A step inside the training job, as the trainer tells of it; times are RFC 3339. */
export interface JobStep {
  id: string
  title: string
  state: 'pending' | 'running' | 'succeeded' | 'failed' | 'skipped'
  progress: number
  message: string | null
  started_at: string | null
  ended_at: string | null
}

export type PlanState = 'PENDING' | 'RUNNING' | 'SUCCEEDED' | 'FAILED' | 'SKIPPED' | 'CANCELED'

/** One line of what a user sees of a training. */
export interface PlanStep {
  name: string
  title: string
  state: PlanState
  progress: number
  message: string | null
  started_at: string | null
  ended_at: string | null
}

/** The step of the run that watches the job; users see the job's own steps in its place. */
export const jobStepId = 'job'

/** What the job will do, until it says so itself. @source trainer/PROTOCOL.md "Events" */
export const plannedJobSteps: readonly JobStep[] = (
  [
    ['load', 'Load the images'],
    ['train', 'Train'],
    ['evaluate', 'Evaluate the best checkpoint'],
    ['export', 'Export and check the model'],
  ] as const
).map(([id, title]) => plannedStep(id, title))

export function plannedStep(id: string, title: string): JobStep {
  return { id, title, state: 'pending', progress: 0, message: null, started_at: null, ended_at: null }
}

/** The whole plan in order: prepare, stage, the steps of the job, verify, register. */
export function stepPlan(runSteps: StepView[], jobSteps: JobStep[], experimentState: string): PlanStep[] {
  const ended = isEndedState(experimentState)
  return runSteps.flatMap((step) =>
    step.id === jobStepId ? jobPlan(step, jobSteps) : [settled(ended, runPlanStep(step))],
  )

  function jobPlan(job: StepView, steps: JobStep[]): PlanStep[] {
    const broken = steps.find((step) => step.state === 'failed') ?? steps.find((step) => !isDone(step.state))
    return steps.map((step) => {
      const own = jobPlanStep(step)
      // A job that vanished told nothing of its end, so the step it was at takes the end of the run's step.
      const unfinished = step === broken && (job.state === 'failed' || job.state === 'canceled')
      if (!unfinished) return settled(ended, own)
      return { ...own, state: planState(job.state), message: job.message ?? own.message, ended_at: iso(job.endedAt) }
    })
  }
}

const isDone = (state: string) => state === 'succeeded' || state === 'skipped'

/** Nothing waits any more when the experiment has ended. */
function settled(ended: boolean, step: PlanStep): PlanStep {
  return ended && (step.state === 'PENDING' || step.state === 'RUNNING') ? { ...step, state: 'SKIPPED' } : step
}

function runPlanStep(step: StepView): PlanStep {
  const { id, title, state, progress, message, startedAt, endedAt } = step
  return {
    name: id,
    title,
    state: planState(state),
    progress,
    message,
    started_at: iso(startedAt),
    ended_at: iso(endedAt),
  }
}

export function jobPlanStep({ id, title, state, progress, message, started_at, ended_at }: JobStep): PlanStep {
  return { name: id, title, state: planState(state), progress, message, started_at, ended_at }
}

export const planState = (state: string): PlanState => state.toUpperCase() as PlanState
const iso = (date: Date | null) => date?.toISOString() ?? null
