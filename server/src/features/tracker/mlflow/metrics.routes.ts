import type { TenantCtx } from '../../../platform/context.ts'
import { read } from '../../../platform/transaction.ts'
import { findHistory, findHistorySample } from '../metrics.store.ts'
import {
  type Fields,
  invalidValue,
  missing,
  optionalInteger,
  pageOffset,
  pageToken,
  requiredRunId,
  requiredText,
  texts,
} from './fields.ts'
import { doubleView } from './mlflow.present.ts'
import { invalidParameter } from './mlflow-errors.ts'
import { get, type MlflowRoute } from './mlflow-route.ts'
import { loadRun } from './run-access.ts'

/** A page when the client does not say; what is more comes by the page token. */
const pageDefault = 25_000
const pageMost = 50_000
const bulkRuns = 100
const bulkPoints = 2500

const metricView = (key: string, point: { step: number; value: number; timestampMs: number }) => ({
  key,
  value: doubleView(point.value),
  timestamp: point.timestampMs,
  step: point.step,
})

async function history(ctx: TenantCtx, fields: Fields) {
  const runId = requiredRunId(fields)
  const key = requiredText(fields, 'metric_key')
  const asked = optionalInteger(fields, 'max_results')
  if (asked !== null && asked < 1) throw invalidValue('max_results', asked, 'It must be a positive integer.')
  const limit = Math.min(asked ?? pageDefault, pageMost)
  const offset = pageOffset(fields)
  return read(ctx, async (tx) => {
    await loadRun(tx, ctx, runId)
    const page = await findHistory(tx, ctx.tenant.id, runId, key, { offset, limit })
    const next = page.more ? { next_page_token: pageToken(offset + limit) } : {}
    return { metrics: page.points.map((point) => metricView(key, point)), ...next }
  })
}

/** Curves of several runs at once, each sampled with its extremes kept. */
async function bulkInterval(ctx: TenantCtx, fields: Fields) {
  const runIds = texts(fields, 'run_ids')
  const key = requiredText(fields, 'metric_key')
  if (runIds.length === 0) throw missing('run_ids')
  if (runIds.length > bulkRuns) {
    throw invalidParameter(
      `GetMetricHistoryBulkInterval request must specify at most ${bulkRuns} run_ids. Received ${runIds.length} run_ids.`,
    )
  }
  const most = optionalInteger(fields, 'max_results') ?? bulkPoints
  if (most < 1 || most > bulkPoints) {
    throw invalidValue('max_results', most, `max_results must be between 1 and ${bulkPoints}.`)
  }
  const steps = interval(fields)
  return read(ctx, async (tx) => {
    const metrics: object[] = []
    for (const runId of runIds) {
      await loadRun(tx, ctx, runId)
      const points = await findHistorySample(tx, ctx.tenant.id, runId, key, steps, most)
      metrics.push(...points.map((point) => ({ ...metricView(key, point), run_id: runId })))
    }
    return { metrics }
  })
}

function interval(fields: Fields): { from: number; to: number } | null {
  const from = optionalInteger(fields, 'start_step')
  const to = optionalInteger(fields, 'end_step')
  if (from === null && to === null) return null
  if (from === null || to === null) {
    throw invalidParameter('If either start step or end step are specified, both must be specified.')
  }
  if (from > to) {
    throw invalidParameter(`end_step must be greater than start_step. Found start_step=${from} and end_step=${to}.`)
  }
  return { from, to }
}

export const metricRoutes: MlflowRoute[] = [
  get('/metrics/get-history', (ctx, { fields }) => history(ctx, fields)),
  get('/metrics/get-history-bulk-interval', (ctx, { fields }) => bulkInterval(ctx, fields)),
]
