import type { TenantCtx } from '../../platform/context.ts'
import { read } from '../../platform/transaction.ts'
import { readMetricSeries } from '../tracker/tracker.api.ts'
import { getExperiment } from './experiments.service.ts'

const pointsDefault = 500
const pointsMax = 5000

/** Metric series of an experiment; without keys those of whole epochs and of the evaluation. @source contract B4.9 */
export async function getMetrics(ctx: TenantCtx, experimentId: string, query: { keys?: string; max_points: number }) {
  const { experiment } = await getExperiment(ctx, experimentId)
  const wanted = query.keys?.split(',').flatMap((key) => key.trim() || [])
  const keys = wanted?.length ? wanted : null
  const maxPoints = Math.min(query.max_points || pointsDefault, pointsMax)
  const found = await read(ctx, (tx) => readMetricSeries(tx, ctx, experiment.trackerRunId, { keys, maxPoints }))
  const series = keys ? found.series : found.series.filter(({ key }) => !isOfBatch(key))
  return {
    keys: series.map(({ key }) => key),
    max_points: maxPoints,
    series: series.map(({ points, ...rest }) => ({
      ...rest,
      points: points.map(({ step, value, ts }) => ({ step, value, ts: new Date(ts).toISOString() })),
    })),
  }
}

/** Many, noisy, and on another axis than the rest. */
const isOfBatch = (key: string) => /(^|\/)batch_[^/]*$/.test(key)
