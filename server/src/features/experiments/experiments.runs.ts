import { mkdir } from 'node:fs/promises'
import type { SystemCtx, TenantCtx } from '../../platform/context.ts'
import { notFound } from '../../platform/errors.ts'
import { defineRun, type StepRun, step } from '../../platform/runs/define-run.ts'
import { read, transaction } from '../../platform/transaction.ts'
import {
  releaseStagedDataset,
  type StagedDataset,
  stageDataset,
  stageDatasetInto,
} from '../dataset-cache/dataset-cache.api.ts'
import { findTrainableDataset } from '../datasets/datasets.api.ts'
import { type ExperimentRow, findExperiment, updateExperiment } from './experiments.store.ts'
import { checkExport } from './export-check.ts'
import { launchOf } from './launch.ts'
import { keepResult } from './model-registration.ts'
import { followRun } from './run-followup.ts'
import { writeDealtIndex } from './sample-split.ts'
import { jobStepId } from './step-plan.ts'
import { findTrainerEnvironment, type TrainerEnvironment } from './trainer-environment.ts'
import { type JobOutcome, runJob } from './training-job.ts'
import { workFolder } from './work-folder.ts'

export interface TrainingInput {
  experimentId: string
}

type TrainingStep = StepRun<TrainingInput>

/** One training from its request to its registered model. @source service §4.3, contract B12.2 */
export const trainingRun = defineRun<TrainingInput>({
  kind: 'experiments.train',
  steps: [
    step<TrainingInput>('prepare', 'Prepare the training environment', prepare),
    step<TrainingInput>('stage', 'Lay out the dataset', stage),
    step<TrainingInput>(jobStepId, 'Run the training job', train),
    step<TrainingInput>('verify', 'Check the exported model', verify),
    step<TrainingInput>('register', 'Keep the result and register the model', register),
  ],
  changed: followRun,
})

async function prepare(s: TrainingStep): Promise<TrainerEnvironment> {
  const ctx = tenantOf(s.ctx)
  const environment = await findTrainerEnvironment({
    trainerPython: ctx.config.trainerPython ?? undefined,
    dataFolder: ctx.config.dataDir,
    report: (line) => {
      s.log(line)
      s.progress(0, line)
    },
    signal: s.signal,
  })
  const { python, torchVersion, torchvisionVersion, device, source } = environment
  const outcome = `Training with ${python}: torch ${torchVersion}, torchvision ${torchvisionVersion}, ${device}.`
  s.log(outcome)
  s.progress(1, outcome)
  const kept = { python, torch: torchVersion, torchvision: torchvisionVersion, device, source }
  await transaction(ctx, (tx) => updateExperiment(tx, s.input.experimentId, { environment: kept }))
  return environment
}

async function stage(s: TrainingStep): Promise<StagedDataset> {
  const ctx = tenantOf(s.ctx)
  const experiment = await experimentOf(s, ctx)
  const folder = workFolder(ctx.config.dataDir, experiment.id)
  await mkdir(folder.root, { recursive: true, mode: 0o700 })
  const dataset = await findTrainableDataset(ctx, experiment.datasetId)
  if (dataset?.digest !== experiment.datasetDigest) throw notFound('The dataset of this experiment is gone.')
  const options = {
    signal: s.signal,
    report: (fraction: number, message: string) => s.progress(fraction, message),
  }
  const { config } = experiment
  const staged = config.cache_dataset
    ? await stageDataset(ctx, dataset, experiment.id, options)
    : await stageDatasetInto(ctx, dataset, folder.data, options)
  s.log(`${dataset.name}: ${dataset.fileCount} files are laid out.`)
  if (config.split.mode !== 'ratio') return staged
  await writeDealtIndex(staged.index, folder.index, config.split)
  return { ...staged, index: folder.index }
}

async function train(s: TrainingStep): Promise<JobOutcome> {
  const ctx = tenantOf(s.ctx)
  const experiment = await experimentOf(s, ctx)
  const { python } = s.output<TrainerEnvironment>('prepare')
  const launch = launchOf(ctx.config, experiment, s.output<StagedDataset>('stage'), python, ctx.tenant.code)
  return runJob(s, ctx, launch)
}

async function verify(s: TrainingStep): Promise<{ maxDifference: number }> {
  const ctx = tenantOf(s.ctx)
  if (!s.output<JobOutcome>(jobStepId).exported) s.skip('Stopped before there was a model.')
  const folder = workFolder(ctx.config.dataDir, s.input.experimentId)
  const maxDifference = await checkExport(folder.model, folder.exportCheck, s.signal)
  const outcome = `The exported model differs from the trained one by ${maxDifference.toPrecision(2)} at most.`
  s.log(outcome)
  s.progress(1, outcome)
  return { maxDifference }
}

async function register(s: TrainingStep): Promise<void> {
  const ctx = tenantOf(s.ctx)
  const { experimentId } = s.input
  await releaseStagedDataset(ctx.config.dataDir, experimentId)
  if (!s.output<JobOutcome>(jobStepId).exported) s.skip('Stopped before there was a model.')
  const registered = await keepResult(ctx, experimentId, workFolder(ctx.config.dataDir, experimentId))
  const outcome = registered ? `Registered as ${registered}.` : 'The model is kept with the experiment, not registered.'
  s.log(outcome)
  s.progress(1, outcome)
}

function tenantOf(ctx: TenantCtx | SystemCtx): TenantCtx {
  if (ctx.kind !== 'tenant') throw new Error('a training belongs to a tenant')
  return ctx
}

async function experimentOf(s: TrainingStep, ctx: TenantCtx): Promise<ExperimentRow> {
  const experiment = await read(ctx, (tx) => findExperiment(tx, ctx.tenant.id, s.input.experimentId))
  if (!experiment) throw notFound('The experiment is gone.')
  return experiment
}
