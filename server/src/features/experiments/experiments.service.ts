import { audited } from '../../platform/audit.ts'
import type { SystemCtx, TenantCtx } from '../../platform/context.ts'
import { conflict, invalid, notFound } from '../../platform/errors.ts'
import { ordering, type SortKeys } from '../../platform/http/lists.ts'
import { newId } from '../../platform/ids.ts'
import { cancelRun, listSteps, startRun } from '../../platform/runs/runs.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { resolveTraining } from '../catalog/catalog.api.ts'
import {
  findTrainableDataset,
  forgetDatasetUsage,
  noteDatasetUsage,
  type TrainableDataset,
} from '../datasets/datasets.api.ts'
import { createTrackerRun, deleteTrackerRun } from '../tracker/tracker.api.ts'
import type { Config } from './experiment-config.schema.ts'
import { publishState } from './experiment-events.ts'
import { modelNameOf, runNameOf } from './experiment-names.ts'
import { trainingRun } from './experiments.runs.ts'
import { type ExperimentState, isEndedState, stoppableStates } from './experiments.states.ts'
import {
  type ExperimentWithSteps,
  findExperiment,
  insertExperiment,
  lockExperiment,
  deleteExperiment as removeExperiment,
  listExperiments as selectExperiments,
  updateExperiment,
} from './experiments.store.ts'
import { endExperiment } from './run-followup.ts'
import { checkSplit } from './sample-split.ts'
import { plannedJobSteps } from './step-plan.ts'
import { removeWork } from './work-removal.ts'

/** Checks the request, opens its run in the tracker and queues the training. Throws a 422 that names the field. */
export async function createExperiment(
  ctx: TenantCtx,
  wanted: Config,
  preset: string | null,
): Promise<ExperimentWithSteps> {
  refuseWhatIsNotThere(wanted)
  checkSplit(wanted.split)
  const { hyperparameters, params } = resolveTraining(wanted, wanted.hyperparameters)
  const dataset = await trainableDataset(ctx, wanted)
  const name = wanted.experiment_name.trim()
  const config = { ...wanted, register_model_name: wanted.register_model_name || modelNameOf(name) }
  const classes = wanted.classes.length > 0 ? wanted.classes : dataset.classes
  const id = newId()
  audited(ctx, name, { experiment_id: id, dataset_id: dataset.id, model: config.model })
  await transaction(ctx, async (tx) => {
    const { runId: trackerRunId, experimentId: trackerExperimentId } = await createTrackerRun(tx, ctx, {
      experimentName: name,
      runName: runNameOf({ id, model: config.model }),
      tags: {
        'platform.experiment_id': id,
        'platform.dataset_id': dataset.id,
        ...(preset ? { 'platform.preset': preset } : {}),
      },
      params: {
        task: config.task,
        framework: config.framework,
        model: config.model,
        dataset: dataset.name,
        dataset_digest: dataset.digest,
        seed: String(config.split.seed),
        ...params,
      },
    })
    const runId = await startRun(tx, ctx, trainingRun, { experimentId: id }, { subject: `experiment:${id}` })
    await insertExperiment(tx, {
      id,
      tenantId: ctx.tenant.id,
      name,
      config,
      preset,
      task: config.task,
      framework: config.framework,
      model: config.model,
      datasetId: dataset.id,
      datasetName: dataset.name,
      datasetDigest: dataset.digest,
      classes,
      hyperparameters,
      jobSteps: [...plannedJobSteps],
      runId,
      trackerRunId,
      trackerExperimentId,
      createdBy: ctx.actor.email,
      createdById: ctx.actor.userId,
    })
    const usage = { datasetId: dataset.id, experimentId: id, experimentName: name, state: 'running' as const }
    await noteDatasetUsage(tx, ctx, usage)
  })
  return getExperiment(ctx, id)
}

function refuseWhatIsNotThere({ runtime_variant, runtime_image, runtime_shared }: Config): void {
  const asked = Object.entries({ runtime_variant, runtime_image, runtime_shared }).find(([, value]) => value)
  if (!asked) return
  const msg = 'there are no runtime images to train in yet: leave it out to train in the environment of the platform'
  throw invalid({ loc: ['body', asked[0]], msg, type: 'value_error', input: asked[1] })
}

async function trainableDataset(ctx: TenantCtx, config: Config): Promise<TrainableDataset> {
  const { task, dataset_id, classes } = config
  const dataset = await findTrainableDataset(ctx, dataset_id)
  const no = (field: string, msg: string, input?: string) =>
    invalid({ loc: ['body', field], msg, type: 'value_error', ...(input === undefined ? {} : { input }) })
  if (!dataset) throw no('dataset_id', 'is no FROZEN dataset with trainable files of this tenant', dataset_id)
  if (dataset.classes.length === 1)
    throw no('dataset_id', `has one class alone, ${dataset.classes[0]}: at least two are needed`, dataset_id)
  if (!dataset.tasks.includes(task))
    throw no(
      'dataset_id',
      `has not the shape of ${task}; it fits ${dataset.tasks.join(', ') || 'no task; its validation says why'}`,
      dataset_id,
    )
  const unknown = classes.filter((name) => !dataset.classes.includes(name))
  if (unknown.length > 0) throw no('classes', `not in the dataset: ${unknown.slice(0, 20).join(', ')}`)
  if (new Set(classes).size !== classes.length) throw no('classes', 'must not name a class twice')
  if (classes.length === 1) throw no('classes', 'at least two classes are needed')
  return dataset
}

export const experimentSorts = { created_at: 'time', name: 'text', status: 'text' } as const satisfies SortKeys

interface ExperimentQuery {
  status?: ExperimentState
  q?: string
  sort?: string
  order?: 'asc' | 'desc'
  page: number
  page_size: number
}

export const listExperiments = (ctx: TenantCtx, query: ExperimentQuery) =>
  read(ctx, (tx) => selectExperiments(tx, ctx.tenant.id, { ...query, ...ordering(experimentSorts, query) }))

/** Throws `not_found`. */
export async function getExperiment(ctx: TenantCtx, id: string): Promise<ExperimentWithSteps> {
  return read(ctx, async (tx) => {
    const experiment = await findExperiment(tx, ctx.tenant.id, id)
    if (!experiment) throw noExperiment()
    return { experiment, runSteps: await listSteps(tx, experiment.runId) }
  })
}

const noExperiment = () => notFound('There is no such experiment.')

/**
 * Asks for a graceful end: what waits or is being laid out ends at once, a job evaluates and exports its best
 * checkpoint first. Throws `conflict` elsewhere.
 */
export async function stopExperiment(ctx: TenantCtx, id: string): Promise<ExperimentWithSteps> {
  await transaction(ctx, async (tx) => {
    const experiment = await lockExperiment(tx, id)
    if (experiment?.tenantId !== ctx.tenant.id) throw noExperiment()
    audited(ctx, experiment.name, { experiment_id: id })
    const { state } = experiment
    if (!stoppableStates.includes(state))
      throw conflict(`An experiment that is ${state} cannot be stopped.`, { detail: { state } })
    await updateExperiment(tx, id, { state: 'STOPPING', stopRequestedAt: ctx.clock.now() })
    if (state !== 'RUNNING') await cancelRun(tx, experiment.runId, `stopped by ${ctx.actor.email}`)
    // Its run may wait for hours behind others.
    if (state === 'PENDING') await endExperiment(tx, id, 'canceled', null)
    else await publishState(tx, id, 'STOPPING')
  })
  return getExperiment(ctx, id)
}

/** Ends a training of any tenant at once; idempotent. Returns its state. */
export async function killExperiment(ctx: SystemCtx, id: string): Promise<ExperimentState> {
  const state = await transaction(ctx, async (tx) => {
    const experiment = await lockExperiment(tx, id)
    if (!experiment) throw noExperiment()
    audited(ctx, experiment.name, { experiment_id: id, tenant_id: experiment.tenantId })
    if (isEndedState(experiment.state)) return experiment.state
    await updateExperiment(tx, id, { state: 'STOPPING', killRequestedAt: ctx.clock.now() })
    await cancelRun(tx, experiment.runId, `killed by ${ctx.actor?.email ?? 'the system'}`)
    if (experiment.state === 'PENDING') {
      await endExperiment(tx, id, 'canceled', null)
      return 'KILLED' as const
    }
    await publishState(tx, id, 'STOPPING')
    return 'STOPPING' as const
  })
  return state
}

/** Removes an ended experiment: record, log, work folder, and its tracker run unless a model came of it. */
export async function deleteExperiment(ctx: TenantCtx, id: string): Promise<void> {
  await transaction(ctx, async (tx) => {
    const experiment = await lockExperiment(tx, id)
    if (experiment?.tenantId !== ctx.tenant.id) throw noExperiment()
    audited(ctx, experiment.name, { experiment_id: id })
    const { state } = experiment
    if (!isEndedState(state)) throw conflict('Stop it first: it has not ended.', { detail: { state } })
    await forgetDatasetUsage(tx, ctx, id)
    if (!experiment.registeredVersion) await deleteTrackerRun(tx, ctx, experiment.trackerRunId)
    await removeExperiment(tx, ctx.tenant.id, experiment)
  })
  await removeWork(ctx, [id])
}
