import { type Client, JobError } from './client.ts'
import { readEvents } from './events.ts'

type Bar = (fraction: number, text?: string) => void

export interface Followed {
  // biome-ignore lint/suspicious/noExplicitAny: the experiment as the contract describes it
  experiment: any
  steps: string[]
  logLines: number
  metricPoints: number
  lastPercent: number
}

const endStates = new Set(['SUCCEEDED', 'FAILED', 'STOPPED', 'KILLED'])

/** Follows the event stream of an experiment to its end; the state itself is read by REST, as the contract wants. */
export async function followExperiment(client: Client, id: string, bar: Bar): Promise<Followed> {
  const seen = { steps: new Set<string>(), logLines: 0, metricPoints: 0, lastPercent: 0 }
  const path = `/api/v1/training/experiments/${id}`
  const done = new AbortController()
  let text = ''
  let ended = await finished(client, path)
  for await (const { name, data } of readEvents(client, `${path}/logs`, done.signal)) {
    if (name === 'connected') ended ??= await finished(client, path)
    if (name === 'step') seen.steps.add(data.name)
    if (name === 'step' && data.state === 'RUNNING') text = data.message ?? data.name
    if (name === 'progress') seen.lastPercent = data.percent
    if (name === 'progress' && data.epochs) text = `epoch ${data.epoch} of ${data.epochs}`
    if (name === 'log') seen.logLines += data.lines.length
    if (name === 'metrics') seen.metricPoints += data.points.length
    if (name === 'experiment' && endStates.has(data.state)) ended = await finished(client, path)
    bar(seen.lastPercent / 100, text)
    if (ended) break
  }
  done.abort()
  const experiment = ended ?? (await finished(client, path))
  if (!experiment) throw new JobError('the event stream ended before the experiment did')
  if (experiment.state !== 'SUCCEEDED')
    throw new JobError(
      `the experiment ended as ${experiment.state}: ${experiment.error?.message ?? 'no reason was given'}`,
    )
  return { ...seen, experiment, steps: [...seen.steps] }
}

async function finished(client: Client, path: string) {
  const experiment = await client.get(path)
  return endStates.has(experiment.state) ? experiment : null
}
