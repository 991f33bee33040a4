import { describe, expect, test } from 'vitest'
import { type JobState, reportOf } from './job-report.ts'
import { plannedJobSteps, stepPlan } from './step-plan.ts'
import type { TrainerEvent } from './trainer-events.ts'

const known: JobState = {
  jobSteps: [...plannedJobSteps],
  percent: 0,
  epoch: 0,
  epochs: 0,
  artifacts: [],
  result: null,
  fault: null,
}
const ts = Date.parse('2026-01-02T03:04:05Z')
const at = (event: object) => ({ ts, ...event }) as TrainerEvent

describe('reportOf', () => {
  test('folds steps, tells each change once, and leaves what was known alone', () => {
    const report = reportOf(known, [
      at({ type: 'step', id: 'load', state: 'running', message: '', progress: 0 }),
      at({ type: 'step', id: 'load', state: 'running', message: '5 of 9 images', progress: 0.5 }),
      at({ type: 'step', id: 'load', state: 'succeeded', message: '', progress: 1 }),
      at({ type: 'step', id: 'train', state: 'running', message: '', progress: 0 }),
      at({ type: 'step', id: 'unheard of', state: 'running', message: '' }),
    ])
    expect(report.steps.map(({ id, state, progress }) => `${id} ${state} ${progress}`)).toEqual([
      'load running 0.5',
      'load succeeded 1',
      'train running 0',
    ])
    expect(report.change.jobSteps?.[0]).toMatchObject({ state: 'succeeded', started_at: '2026-01-02T03:04:05.000Z' })
    expect(known.jobSteps[0]).toMatchObject({ state: 'pending' })
  })

  test('a new plan forgets the result and the fault of the job before it', () => {
    const before = { ...known, fault: { message: 'm', remedy: 'r' } }
    const steps = [{ id: 'train', title: 'Train' }]
    expect(reportOf(before, [at({ type: 'plan', steps })]).state).toMatchObject({
      fault: null,
      jobSteps: [{ id: 'train', state: 'pending' }],
    })
  })

  test('an artifact that is written again replaces the first, and unknown events change nothing', () => {
    const artifact = { type: 'artifact', path: 'model/model.onnx', kind: 'model', size: 1 }
    const report = reportOf(known, [
      at({ ...artifact, sha256: 'a' }),
      at({ ...artifact, sha256: 'b' }),
      at({ type: 'of another time' }),
    ])
    expect(report.change).toEqual({ artifacts: [{ path: 'model/model.onnx', kind: 'model', size: 1, sha256: 'b' }] })
  })

  test('log lines are lines, without what the database cannot hold', () => {
    const report = reportOf(known, [
      at({ type: 'log', level: 'info', message: 'plain' }),
      at({ type: 'log', level: 'warning', message: 'a\0b' }),
    ])
    expect(report.log).toBe('plain\nwarning: a�b\n')
  })
})

describe('stepPlan', () => {
  const run = (id: string, state: string) =>
    ({ id, title: id, state, progress: 0, message: null, startedAt: null, endedAt: null }) as const
  const jobSteps = reportOf(known, [
    at({ type: 'step', id: 'load', state: 'succeeded', message: '' }),
    at({ type: 'step', id: 'train', state: 'running', message: 'Epoch 3 of 9', progress: 0.3 }),
  ]).state.jobSteps

  test('puts the steps of the job in the place of the step that watches it', () => {
    const plan = stepPlan(
      [run('stage', 'succeeded'), run('job', 'running'), run('verify', 'pending')],
      jobSteps,
      'RUNNING',
    )
    expect(plan.map(({ name, state }) => `${name} ${state}`)).toEqual([
      'stage SUCCEEDED',
      'load SUCCEEDED',
      'train RUNNING',
      'evaluate PENDING',
      'export PENDING',
      'verify PENDING',
    ])
  })

  test('a job that vanished failed at the step it was at; nothing waits after the end', () => {
    const job = { ...run('job', 'failed'), message: 'The job was killed.' }
    const plan = stepPlan([run('stage', 'succeeded'), job, run('verify', 'pending')], jobSteps, 'FAILED')
    expect(plan.map(({ name, state }) => `${name} ${state}`)).toEqual([
      'stage SUCCEEDED',
      'load SUCCEEDED',
      'train FAILED',
      'evaluate SKIPPED',
      'export SKIPPED',
      'verify SKIPPED',
    ])
    expect(plan[2]).toMatchObject({ message: 'The job was killed.', progress: 0.3 })
  })
})
