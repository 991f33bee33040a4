import type { TenantCtx } from '../../../platform/context.ts'
import type { Tx } from '../../../platform/db/transaction.ts'
import type { MetricPoint } from '../metrics.store.ts'
import { type Fields, optionalText } from './fields.ts'
import { metricOf } from './limits.ts'
import { loadLoggedModels } from './logged-model-access.ts'
import { upsertModelMetrics } from './logged-models.store.ts'

/** A metric point that may belong to a logged model and to the data set it was measured on. */
export interface LinkedMetric extends MetricPoint {
  modelId: string | null
  datasetName: string
  datasetDigest: string
}

export const linkedMetricOf = (fields: Fields, path: string): LinkedMetric => ({
  ...metricOf(fields, path),
  modelId: optionalText(fields, 'model_id') || null,
  datasetName: optionalText(fields, 'dataset_name') ?? '',
  datasetDigest: optionalText(fields, 'dataset_digest') ?? '',
})

/** Keeps with each logged model what the run measured of it. */
export async function logLinkedMetrics(tx: Tx, ctx: TenantCtx, runId: string, metrics: LinkedMetric[]): Promise<void> {
  const linked = metrics.flatMap((metric) => (metric.modelId === null ? [] : [{ ...metric, modelId: metric.modelId }]))
  if (linked.length === 0) return
  await loadLoggedModels(tx, ctx, [...new Set(linked.map((metric) => metric.modelId))])
  await upsertModelMetrics(tx, ctx.tenant.id, runId, linked)
}
