import type { Tx } from '../../platform/db/transaction.ts'
import { publish } from '../../platform/events/events.ts'
import type { ExperimentState } from './experiments.states.ts'
import { type JobStep, planState } from './step-plan.ts'

/** Names of the events on an experiment's stream. @source service §6 */
export const eventNames = ['log', 'step', 'progress', 'metrics', 'experiment'] as const

export const experimentChannel = (experimentId: string): string => `experiments:${experimentId}`

/** A notification may have 7.9 kB; this leaves room for the envelope and for what JSON escapes. */
const payloadBytes = 6000
const pointsPerEvent = 40

export interface MetricPoint {
  key: string
  step: number
  value: number
  /** Milliseconds since 1970. */
  timestampMs: number
}

export const publishState = (tx: Tx, id: string, state: ExperimentState): Promise<void> =>
  publish(tx, experimentChannel(id), 'experiment', { id, state })

export function publishStep(
  tx: Tx,
  experimentId: string,
  { id, state, progress, message }: Pick<JobStep, 'id' | 'progress' | 'message'> & { state: string },
): Promise<void> {
  const data = { name: id, state: planState(state), progress, message: message?.slice(0, 1000) ?? null }
  return publish(tx, experimentChannel(experimentId), 'step', data)
}

export const publishProgress = (
  tx: Tx,
  id: string,
  progress: { percent: number; epoch: number; epochs: number },
): Promise<void> => publish(tx, experimentChannel(id), 'progress', progress)

/** Points as they came; several events when there are many. */
export async function publishMetrics(tx: Tx, id: string, points: MetricPoint[]): Promise<void> {
  for (let start = 0; start < points.length; start += pointsPerEvent) {
    const some = points.slice(start, start + pointsPerEvent)
    await publish(tx, experimentChannel(id), 'metrics', { points: some.map(pointView) })
  }
}

const pointView = ({ key, step, value, timestampMs }: MetricPoint) => ({
  key,
  step,
  value,
  ts: new Date(timestampMs).toISOString(),
})

/** Lines of the log; `offset` is the byte in the whole log they begin at. A line that is too long comes shortened. */
export async function publishLog(tx: Tx, id: string, text: string, byteOffset: number): Promise<void> {
  let offset = byteOffset
  let next = byteOffset
  let lines: string[] = []
  let size = 0
  const flush = async () => {
    if (lines.length > 0) await publish(tx, experimentChannel(id), 'log', { lines, offset })
    offset = next
    lines = []
    size = 0
  }
  for (const line of text.replace(/\n$/, '').split('\n')) {
    const shown = shortened(line)
    const bytes = Buffer.byteLength(JSON.stringify(shown))
    if (size + bytes > payloadBytes) await flush()
    lines.push(shown)
    size += bytes
    next += Buffer.byteLength(line) + 1
  }
  await flush()
}

const shortened = (line: string): string => (line.length > 500 ? `${line.slice(0, 500)}…` : line)
