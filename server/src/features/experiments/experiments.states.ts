/** States of an experiment. @source contract B12.2 */
export const experimentStates = [
  'PENDING',
  'STAGING',
  'RUNNING',
  'STOPPING',
  'SUCCEEDED',
  'FAILED',
  'STOPPED',
  'KILLED',
] as const

export type ExperimentState = (typeof experimentStates)[number]

export const endedStates: readonly ExperimentState[] = ['SUCCEEDED', 'FAILED', 'STOPPED', 'KILLED']
/** Where a graceful stop may still be asked for. */
export const stoppableStates: readonly ExperimentState[] = ['PENDING', 'STAGING', 'RUNNING']

export const isEndedState = (state: string): boolean => endedStates.includes(state as ExperimentState)

/** How an experiment ends when its run does; `finished` says that its job trained to the end. */
export function endState(
  run: 'succeeded' | 'failed' | 'canceled',
  facts: { finished: boolean; killRequested: boolean },
): ExperimentState {
  if (run === 'succeeded' && facts.finished) return 'SUCCEEDED'
  if (facts.killRequested) return 'KILLED'
  return run === 'failed' ? 'FAILED' : 'STOPPED'
}
