import type { TenantCtx } from '../../../platform/context.ts'
import { newId } from '../../../platform/ids.ts'
import { read, transaction } from '../../../platform/transaction.ts'
import { artifactRootUri, folderOfUri, loggedModelFolder } from '../artifact-addresses.api.ts'
import { runIdOf } from '../runs.store.ts'
import { cleanPath } from './artifact-paths.ts'
import { entriesOf, entryView } from './artifact-tree.ts'
import { loadActiveExperiment } from './experiments.routes.ts'
import {
  choice,
  type Fields,
  limit,
  messages,
  optionalFlag,
  optionalText,
  pageOffset,
  requiredText,
  texts,
} from './fields.ts'
import { parseFilter, parseIdentifier } from './filter.ts'
import { paramsOf, tagsOf } from './limits.ts'
import { loadLoggedModel } from './logged-model-access.ts'
import {
  insertLoggedModel,
  type LoggedModelChange,
  type LoggedModelRow,
  type LoggedModelSearch,
  loggedModelGrammar,
  type MeasuredOn,
  searchLoggedModels,
  updateLoggedModel,
} from './logged-models.store.ts'
import { tagList } from './mlflow.present.ts'
import { doesNotExist } from './mlflow-errors.ts'
import { get, type MlflowRoute, search, write } from './mlflow-route.ts'
import { loadRun } from './run-access.ts'
import { randomRunName } from './run-names.ts'
import { nextPage } from './search.ts'

const statuses = ['LOGGED_MODEL_PENDING', 'LOGGED_MODEL_READY', 'LOGGED_MODEL_UPLOAD_FAILED'] as const
const statusNumbers = { 1: statuses[0], 2: statuses[1], 3: statuses[2] } as const

export const loggedModelUri = (ctx: TenantCtx, model: Pick<LoggedModelRow, 'experimentId' | 'modelId'>): string =>
  `${artifactRootUri(ctx)}/${loggedModelFolder(model.experimentId, model.modelId)}`

const modelView = (ctx: TenantCtx, model: LoggedModelRow) => ({
  info: {
    model_id: model.modelId,
    experiment_id: String(model.experimentId),
    name: model.name,
    creation_timestamp_ms: model.createdMs,
    last_updated_timestamp_ms: model.updatedMs,
    artifact_uri: loggedModelUri(ctx, model),
    status: model.status,
    model_type: model.modelType,
    source_run_id: model.sourceRunId ?? '',
    tags: tagList(model.tags),
  },
  data: { params: tagList(model.params), metrics: model.metrics },
})

async function create(ctx: TenantCtx, fields: Fields) {
  const runId = optionalText(fields, 'source_run_id') || null
  const params = Object.fromEntries(paramsOf(messages(fields, 'params')))
  const tags = tagsOf(messages(fields, 'tags'), 'model')
  return transaction(ctx, async (tx) => {
    const { experimentId } = await loadActiveExperiment(tx, ctx, requiredText(fields, 'experiment_id'))
    if (runId) await loadRun(tx, ctx, runId)
    const model = {
      modelId: `m-${runIdOf(newId())}`,
      experimentId,
      name: optionalText(fields, 'name') || randomRunName(),
      sourceRunId: runId,
      modelType: optionalText(fields, 'model_type') ?? '',
      params,
      tags,
      createdMs: ctx.clock.now().getTime(),
    }
    await insertLoggedModel(tx, ctx.tenant.id, model)
    return { model: modelView(ctx, await loadLoggedModel(tx, ctx, model.modelId)) }
  })
}

/** Changes a model that must be there, and gives it back. */
async function change(ctx: TenantCtx, modelId: string, changes: LoggedModelChange) {
  return transaction(ctx, async (tx) => {
    const model = await loadLoggedModel(tx, ctx, modelId)
    if (changes.removedTag !== undefined && !(changes.removedTag in model.tags)) {
      throw doesNotExist(`No tag with key '${changes.removedTag}' found for model with ID '${modelId}'.`)
    }
    await updateLoggedModel(tx, ctx.tenant.id, modelId, changes, ctx.clock.now().getTime())
    if (changes.lifecycleStage === 'deleted') return {}
    return { model: modelView(ctx, await loadLoggedModel(tx, ctx, modelId)) }
  })
}

const measuredOn = (fields: Fields): MeasuredOn | null => {
  const name = optionalText(fields, 'dataset_name')
  return name ? { name, digest: optionalText(fields, 'dataset_digest') || null } : null
}

function orderOf(fields: Fields): LoggedModelSearch['orders'][number] {
  const identifier = parseIdentifier(requiredText(fields, 'field_name'), loggedModelGrammar)
  const descending = optionalFlag(fields, 'ascending') === false
  return { ...identifier, descending, dataset: measuredOn(fields) }
}

async function list(ctx: TenantCtx, fields: Fields) {
  const wanted: LoggedModelSearch = {
    experimentIds: texts(fields, 'experiment_ids')
      .filter((id) => /^\d{1,15}$/.test(id))
      .map(Number),
    comparisons: parseFilter(optionalText(fields, 'filter'), loggedModelGrammar),
    datasets: messages(fields, 'datasets').flatMap((dataset) => measuredOn(dataset) ?? []),
    orders: messages(fields, 'order_by').map(orderOf),
    offset: pageOffset(fields),
    limit: limit(fields, { fallback: 100, most: 1000 }),
  }
  const page = await read(ctx, (tx) => searchLoggedModels(tx, ctx.tenant.id, wanted))
  return { models: page.items.map((model) => modelView(ctx, model)), ...nextPage(wanted, page) }
}

async function directory(ctx: TenantCtx, modelId: string, fields: Fields) {
  const path = cleanPath(optionalText(fields, 'artifact_directory_path') ?? '')
  return read(ctx, async (tx) => {
    const uri = loggedModelUri(ctx, await loadLoggedModel(tx, ctx, modelId))
    const folder = folderOfUri(ctx, uri)!
    const entries = await entriesOf(tx, ctx, path === '' ? folder : `${folder}/${path}`)
    return { root_uri: uri, files: entries.map((entry) => entryView(entry, path)) }
  })
}

const one = '/logged-models/{model_id}'

/** @source contract B10.0, B10.9 */
export const loggedModelRoutes: MlflowRoute[] = [
  write('POST', '/logged-models', (ctx, { fields }) => create(ctx, fields)),
  search('/logged-models/search', (ctx, { fields }) => list(ctx, fields)),
  get(one, async (ctx, { params }) => ({
    model: modelView(ctx, await read(ctx, (tx) => loadLoggedModel(tx, ctx, params.model_id!))),
  })),
  write('PATCH', one, (ctx, { fields, params }) => {
    const status = choice(fields, 'status', statuses, statusNumbers)
    return change(ctx, params.model_id!, status ? { status } : {})
  }),
  write('DELETE', one, (ctx, { params }) => change(ctx, params.model_id!, { lifecycleStage: 'deleted' })),
  write('PATCH', `${one}/tags`, (ctx, { fields, params }) =>
    change(ctx, params.model_id!, { tags: tagsOf(messages(fields, 'tags'), 'model') }),
  ),
  write('DELETE', `${one}/tags/{tag_key}`, async (ctx, { params }) => {
    await change(ctx, params.model_id!, { removedTag: params.tag_key! })
    return null
  }),
  write('POST', `${one}/params`, async (ctx, { fields, params }) => {
    const given = Object.fromEntries(paramsOf(messages(fields, 'params')))
    await change(ctx, params.model_id!, { params: given })
    return null
  }),
  get(`${one}/artifacts/directories`, (ctx, { fields, params }) => directory(ctx, params.model_id!, fields)),
]
