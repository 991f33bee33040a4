import type { TenantCtx } from '../../../platform/context.ts'
import { transaction } from '../../../platform/transaction.ts'
import { type LogOutcome, logToRuns, type RunLog } from '../run-logging.store.ts'
import { deleteTag, isRunId } from '../runs.store.ts'
import { type Fields, messages, optionalText, requiredRunId, requiredText } from './fields.ts'
import { batchLimits, checkTag, paramsOf, tagsOf } from './limits.ts'
import { type LinkedMetric, linkedMetricOf, logLinkedMetrics } from './linked-metrics.ts'
import { doesNotExist, invalidParameter } from './mlflow-errors.ts'
import { type MlflowRoute, write } from './mlflow-route.ts'
import { deletedRun, loadActiveRun, noSuchRun } from './run-access.ts'
import { appendModelHistory } from './run-inputs.store.ts'
import { logToRun } from './run-lanes.ts'

/** What one request logs to a run; all of it or nothing. */
interface Logged extends Omit<RunLog, 'runId'> {
  metrics: LinkedMetric[]
}

async function log(ctx: TenantCtx, runId: string, logged: Logged): Promise<null> {
  if (!isRunId(runId)) throw noSuchRun(runId)
  const request = { runId, ...logged }
  if (logged.metrics.every(({ modelId }) => modelId === null)) {
    refuse(runId, await logToRun(ctx, request))
    return null
  }
  await transaction(ctx, async (tx) => {
    const [outcome] = await logToRuns(tx, ctx.tenant.id, [request])
    refuse(runId, outcome!)
    await logLinkedMetrics(tx, ctx, runId, logged.metrics)
  })
  return null
}

/** Throws what the client is to hear when nothing was logged. */
function refuse(runId: string, { lifecycle, changedKey, held, given }: LogOutcome): void {
  if (lifecycle === null) throw noSuchRun(runId)
  if (lifecycle === 'deleted') throw deletedRun(runId)
  if (changedKey === null) return
  throw invalidParameter(
    `Changing param values is not allowed. Param with key='${changedKey}' was already logged with ` +
      `value='${held}' for run ID='${runId}'. Attempted logging new value '${given}'.`,
  )
}

function logBatch(ctx: TenantCtx, fields: Fields, bodyBytes: number): Promise<null> {
  const runId = requiredRunId(fields)
  if (bodyBytes > batchLimits.bytes) {
    throw invalidParameter(
      `Batched logging API requests must be at most ${batchLimits.bytes} bytes, got a request of size ${bodyBytes}.`,
    )
  }
  const lists = {
    metrics: messages(fields, 'metrics'),
    params: messages(fields, 'params'),
    tags: messages(fields, 'tags'),
  }
  checkCounts(lists)
  return log(ctx, runId, {
    metrics: lists.metrics.map((metric, place) => linkedMetricOf(metric, `metrics[${place}]`)),
    params: paramsOf(lists.params),
    tags: Object.entries(tagsOf(lists.tags, 'run')),
  })
}

/** @source contract B10.6 */
function checkCounts(lists: { metrics: unknown[]; params: unknown[]; tags: unknown[] }): void {
  for (const [name, list] of Object.entries(lists)) {
    const most = batchLimits[name as keyof typeof lists]
    if (list.length > most) throw tooMany(name, most, list.length)
  }
  const total = lists.metrics.length + lists.params.length + lists.tags.length
  if (total > batchLimits.entities) throw tooMany('metrics, params, and tags', batchLimits.entities, total)
}

const tooMany = (what: string, most: number, count: number) =>
  invalidParameter(
    `A batch logging request can contain at most ${most} ${what}. Got ${count} ${what}. Please split up ${what} across multiple requests and try again.`,
  )

function setTag(ctx: TenantCtx, fields: Fields): Promise<null> {
  const runId = requiredRunId(fields)
  const key = requiredText(fields, 'key')
  const value = optionalText(fields, 'value') ?? ''
  checkTag(key, value, 'run')
  return log(ctx, runId, { metrics: [], params: [], tags: [[key, value]] })
}

async function removeTag(ctx: TenantCtx, fields: Fields): Promise<null> {
  const key = requiredText(fields, 'key')
  const runId = requiredRunId(fields)
  await transaction(ctx, async (tx) => {
    await loadActiveRun(tx, ctx, runId)
    if (!(await deleteTag(tx, ctx.tenant.id, runId, key))) {
      throw doesNotExist(`No tag with name: ${key} in run with id ${runId}`)
    }
  })
  return null
}

const modelFields = ['artifact_path', 'flavors', 'utc_time_created', 'run_id']

/** What 2.x clients say of a model they logged: it is kept in a tag. @source contract B10.9 */
async function logModel(ctx: TenantCtx, fields: Fields): Promise<null> {
  const runId = requiredRunId(fields)
  const model = parsedModel(requiredText(fields, 'model_json'))
  const missing = modelFields.filter((name) => !(name in model))
  if (missing.length) throw invalidParameter(`Model json is missing mandatory fields: ${missing.join(', ')}`)
  await transaction(ctx, async (tx) => {
    await loadActiveRun(tx, ctx, runId)
    await appendModelHistory(tx, ctx.tenant.id, runId, model)
  })
  return null
}

function parsedModel(text: string): object {
  try {
    const model: unknown = JSON.parse(text)
    if (typeof model === 'object' && model !== null) return model
  } catch {
    // Said below.
  }
  throw invalidParameter(`Malformed model info. \n ${text.slice(0, 200)} \n is not a valid JSON.`)
}

/** @source contract B10.0, B10.6 */
export const runLoggingRoutes: MlflowRoute[] = [
  write('POST', '/runs/log-metric', (ctx, { fields }) =>
    log(ctx, requiredRunId(fields), { metrics: [linkedMetricOf(fields, '')], params: [], tags: [] }),
  ),
  write('POST', '/runs/log-parameter', (ctx, { fields }) =>
    log(ctx, requiredRunId(fields), { metrics: [], params: paramsOf([fields], ''), tags: [] }),
  ),
  write('POST', '/runs/log-batch', (ctx, { fields, bodyBytes }) => logBatch(ctx, fields, bodyBytes)),
  write('POST', '/runs/set-tag', (ctx, { fields }) => setTag(ctx, fields)),
  write('POST', '/runs/delete-tag', (ctx, { fields }) => removeTag(ctx, fields)),
  write('POST', '/runs/log-model', (ctx, { fields }) => logModel(ctx, fields)),
]
