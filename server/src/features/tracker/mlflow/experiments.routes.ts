import { audited } from '../../../platform/audit.ts'
import type { TenantCtx } from '../../../platform/context.ts'
import type { Tx } from '../../../platform/db/transaction.ts'
import { read, transaction } from '../../../platform/transaction.ts'
import {
  changeExperimentTag,
  type ExperimentRow,
  findExperiment,
  findExperimentByName,
  insertExperiment,
  setLifecycleOfRuns,
  updateExperiment,
} from '../experiments.store.ts'
import { experimentGrammar, searchExperiments } from './experiment-search.store.ts'
import { type Fields, invalidValue, messages, optionalText, requiredText } from './fields.ts'
import { checkLength, checkTag, tagsOf } from './limits.ts'
import { experimentView } from './mlflow.present.ts'
import { alreadyExists, doesNotExist, invalidParameter } from './mlflow-errors.ts'
import { get, type MlflowRoute, search, write } from './mlflow-route.ts'
import { nextPage, readSearch } from './search.ts'

export const noSuchExperiment = (id: string) => doesNotExist(`No Experiment with id=${id} exists`)

export const deletedExperiment = (id: string) =>
  invalidParameter(`The experiment ${id} must be in the 'active' state. Current state is deleted.`)

/** Throws RESOURCE_DOES_NOT_EXIST; the id is a number as text. */
export async function loadExperiment(tx: Tx, ctx: TenantCtx, id: string): Promise<ExperimentRow> {
  const experiment = /^\d{1,15}$/.test(id) ? await findExperiment(tx, ctx.tenant.id, Number(id)) : null
  if (!experiment) throw noSuchExperiment(id)
  return experiment
}

/** The experiment, which must not be deleted. */
export async function loadActiveExperiment(tx: Tx, ctx: TenantCtx, id: string): Promise<ExperimentRow> {
  const experiment = await loadExperiment(tx, ctx, id)
  if (experiment.lifecycleStage === 'active') return experiment
  throw deletedExperiment(id)
}

function nameOf(fields: Fields, field: string): string {
  const name = requiredText(fields, field)
  checkLength('Experiment name', name, 500)
  return name
}

const taken = (name: string) =>
  alreadyExists(`Experiment(name=${name}) already exists. Use another name, or restore it.`)

async function create(ctx: TenantCtx, fields: Fields) {
  const name = nameOf(fields, 'name')
  const tags = tagsOf(messages(fields, 'tags'), 'experiment')
  const location = optionalText(fields, 'artifact_location') || null
  if (location && (/[?#]/.test(location) || location.split('/').includes('..'))) {
    throw invalidValue('artifact_location', location, 'It must not hold a query, a fragment or ..')
  }
  audited(ctx, name)
  return transaction(ctx, async (tx) => {
    const id = await insertExperiment(tx, ctx.tenant.id, name, { tags, artifactLocation: location })
    if (id === null) throw taken(name)
    return { experiment_id: String(id) }
  })
}

async function rename(ctx: TenantCtx, fields: Fields): Promise<null> {
  const name = optionalText(fields, 'new_name') ? nameOf(fields, 'new_name') : null
  await transaction(ctx, async (tx) => {
    const { experimentId } = await loadActiveExperiment(tx, ctx, requiredText(fields, 'experiment_id'))
    if (name === null) return
    const other = await findExperimentByName(tx, ctx.tenant.id, name)
    if (other && other.experimentId !== experimentId) throw taken(name)
    await updateExperiment(tx, ctx.tenant.id, experimentId, { name })
  })
  return null
}

/** Runs go and come back with their experiment. */
async function setLifecycle(ctx: TenantCtx, fields: Fields, to: 'active' | 'deleted'): Promise<null> {
  await transaction(ctx, async (tx) => {
    const { experimentId, name, lifecycleStage } = await loadExperiment(tx, ctx, requiredText(fields, 'experiment_id'))
    audited(ctx, name)
    if (lifecycleStage === to) throw invalidParameter(`The experiment ${experimentId} is ${to} already.`)
    await updateExperiment(tx, ctx.tenant.id, experimentId, { lifecycleStage: to })
    await setLifecycleOfRuns(tx, ctx.tenant.id, experimentId, to)
  })
  return null
}

async function setTag(ctx: TenantCtx, fields: Fields, value: string | null): Promise<null> {
  const key = requiredText(fields, 'key')
  if (value !== null) checkTag(key, value, 'experiment')
  await transaction(ctx, async (tx) => {
    const experiment = await loadActiveExperiment(tx, ctx, requiredText(fields, 'experiment_id'))
    if (value === null && !(key in experiment.tags)) {
      throw doesNotExist(`No tag with name: ${key} in experiment with id ${experiment.experimentId}`)
    }
    await changeExperimentTag(tx, ctx.tenant.id, experiment.experimentId, key, value)
  })
  return null
}

async function list(ctx: TenantCtx, fields: Fields) {
  const wanted = readSearch(fields, experimentGrammar, { view: 'view_type', fallback: 1000, most: 50_000 })
  const page = await read(ctx, (tx) => searchExperiments(tx, ctx.tenant.id, wanted))
  return { experiments: page.items.map((row) => experimentView(ctx, row)), ...nextPage(wanted, page) }
}

async function byName(ctx: TenantCtx, fields: Fields) {
  const name = requiredText(fields, 'experiment_name')
  const experiment = await read(ctx, (tx) => findExperimentByName(tx, ctx.tenant.id, name))
  if (!experiment) throw doesNotExist(`Could not find experiment with name '${name}'`)
  return { experiment: experimentView(ctx, experiment) }
}

/** @source contract B10.0, B10.4, B10.5 */
export const experimentRoutes: MlflowRoute[] = [
  write('POST', '/experiments/create', (ctx, { fields }) => create(ctx, fields), {
    audit: 'tracker.create_experiment',
  }),
  get('/experiments/get', async (ctx, { fields }) => {
    const id = requiredText(fields, 'experiment_id')
    return { experiment: experimentView(ctx, await read(ctx, (tx) => loadExperiment(tx, ctx, id))) }
  }),
  get('/experiments/get-by-name', (ctx, { fields }) => byName(ctx, fields)),
  get('/experiments/search', (ctx, { fields }) => list(ctx, fields)),
  search('/experiments/search', (ctx, { fields }) => list(ctx, fields)),
  write('POST', '/experiments/update', (ctx, { fields }) => rename(ctx, fields)),
  write('POST', '/experiments/delete', (ctx, { fields }) => setLifecycle(ctx, fields, 'deleted'), {
    audit: 'tracker.delete_experiment',
  }),
  write('POST', '/experiments/restore', (ctx, { fields }) => setLifecycle(ctx, fields, 'active'), {
    audit: 'tracker.restore_experiment',
  }),
  write('POST', '/experiments/set-experiment-tag', (ctx, { fields }) =>
    setTag(ctx, fields, optionalText(fields, 'value') ?? ''),
  ),
  write('POST', '/experiments/delete-experiment-tag', (ctx, { fields }) => setTag(ctx, fields, null)),
]
