import { audited } from '../../../platform/audit.ts'
import type { TenantCtx } from '../../../platform/context.ts'
import { read, transaction } from '../../../platform/transaction.ts'
import { artifactRootUri } from '../artifact-addresses.api.ts'
import { findRunData } from '../run-data.store.ts'
import { type TrackerRunChange, type TrackerRunRow, updateRun, upsertTags } from '../runs.store.ts'
import { deletedExperiment, noSuchExperiment } from './experiments.routes.ts'
import { choice, type Fields, messages, optionalInteger, optionalText, requiredRunId, texts } from './fields.ts'
import { tagsOf } from './limits.ts'
import { runInfoView, runView, tagList } from './mlflow.present.ts'
import { invalidParameter } from './mlflow-errors.ts'
import { get, type MlflowRoute, search, write } from './mlflow-route.ts'
import { loadActiveRun, loadRun } from './run-access.ts'
import { openRun } from './run-lanes.ts'
import { randomRunName } from './run-names.ts'
import { type RunSearch, runGrammar, searchRuns } from './run-search.store.ts'
import { nextPage, readSearch } from './search.ts'

export const runNameTag = 'mlflow.runName'

const statuses = ['RUNNING', 'SCHEDULED', 'FINISHED', 'FAILED', 'KILLED'] as const
const statusNumbers = { 1: 'RUNNING', 2: 'SCHEDULED', 3: 'FINISHED', 4: 'FAILED', 5: 'KILLED' } as const

async function create(ctx: TenantCtx, fields: Fields) {
  const tags = tagsOf(messages(fields, 'tags'), 'run')
  const given = optionalText(fields, 'run_name') || null
  const tagged = tags[runNameTag] || null
  if (given && tagged && given !== tagged) {
    const why = "Both 'run_name' argument and 'mlflow.runName' tag are specified, but with different values"
    throw invalidParameter(`${why} (run_name='${given}', mlflow.runName='${tagged}').`)
  }
  const name = given ?? tagged ?? randomRunName()
  const labels: Record<string, string> = { ...tags, [runNameTag]: name }
  const startMs = optionalInteger(fields, 'start_time') ?? ctx.clock.now().getTime()
  const userName = optionalText(fields, 'user_id') || labels['mlflow.user'] || ctx.actor.email
  const id = optionalText(fields, 'experiment_id') || '0'
  if (!/^\d{1,15}$/.test(id)) throw noSuchExperiment(id)
  const run = { experimentId: Number(id), name, userName, startMs }
  const { runId, lifecycle, location } = await openRun(ctx, { ...run, tags: Object.entries(labels) })
  if (lifecycle === null) throw noSuchExperiment(id)
  if (lifecycle === 'deleted') throw deletedExperiment(id)
  const row: TrackerRunRow = {
    ...{ ...run, runId, artifactLocation: location, endMs: null },
    ...{ status: 'RUNNING', lifecycleStage: 'active' },
  }
  const nothing = { metrics: [], params: [], datasets: [], modelInputs: [], modelOutputs: [] }
  return { run: runView(ctx, row, { ...nothing, tags: tagList(labels) }) }
}

async function getOne(ctx: TenantCtx, fields: Fields) {
  const runId = requiredRunId(fields)
  return read(ctx, async (tx) => {
    const run = await loadRun(tx, ctx, runId)
    const data = await findRunData(tx, ctx.tenant.id, [runId])
    return { run: runView(ctx, run, data.get(runId)!) }
  })
}

async function update(ctx: TenantCtx, fields: Fields) {
  const runId = requiredRunId(fields)
  const change: TrackerRunChange = {}
  const status = choice(fields, 'status', statuses, statusNumbers)
  const endMs = optionalInteger(fields, 'end_time')
  const name = optionalText(fields, 'run_name')
  if (status) change.status = status
  if (endMs) change.endMs = endMs
  if (name) change.name = name
  return transaction(ctx, async (tx) => {
    const run = await loadActiveRun(tx, ctx, runId)
    await updateRun(tx, ctx.tenant.id, runId, change)
    if (name) await upsertTags(tx, ctx.tenant.id, runId, [[runNameTag, name]])
    return { run_info: runInfoView(ctx, { ...run, ...change }) }
  })
}

async function setLifecycle(ctx: TenantCtx, fields: Fields, lifecycleStage: 'active' | 'deleted'): Promise<null> {
  const runId = requiredRunId(fields)
  audited(ctx, runId)
  await transaction(ctx, async (tx) => {
    await loadRun(tx, ctx, runId)
    await updateRun(tx, ctx.tenant.id, runId, { lifecycleStage })
  })
  return null
}

async function list(ctx: TenantCtx, fields: Fields) {
  const limits = { view: 'run_view_type', fallback: 1000, most: 50_000 }
  const wanted: RunSearch = {
    ...readSearch(fields, runGrammar, limits),
    // What is no number is no experiment of ours: it finds nothing.
    experimentIds: texts(fields, 'experiment_ids')
      .filter((id) => /^\d{1,15}$/.test(id))
      .map(Number),
    artifactRoot: artifactRootUri(ctx),
  }
  return read(ctx, async (tx) => {
    const page = await searchRuns(tx, ctx.tenant.id, wanted)
    const data = await findRunData(
      tx,
      ctx.tenant.id,
      page.items.map((run) => run.runId),
    )
    return { runs: page.items.map((run) => runView(ctx, run, data.get(run.runId)!)), ...nextPage(wanted, page) }
  })
}

/** @source contract B10.0, B10.5, B10.7 */
export const runRoutes: MlflowRoute[] = [
  write('POST', '/runs/create', (ctx, { fields }) => create(ctx, fields)),
  get('/runs/get', (ctx, { fields }) => getOne(ctx, fields)),
  write('POST', '/runs/update', (ctx, { fields }) => update(ctx, fields)),
  write('POST', '/runs/delete', (ctx, { fields }) => setLifecycle(ctx, fields, 'deleted'), {
    audit: 'tracker.delete_run',
  }),
  write('POST', '/runs/restore', (ctx, { fields }) => setLifecycle(ctx, fields, 'active'), {
    audit: 'tracker.restore_run',
  }),
  search('/runs/search', (ctx, { fields }) => list(ctx, fields)),
]
