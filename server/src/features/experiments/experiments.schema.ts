import { Type } from 'typebox'
import {
  anyJson,
  anyObject,
  listOf,
  named,
  nullable,
  oneOf,
  pageOf,
  sha256Digest,
  timestamp,
  uuid,
} from '../../platform/schema.ts'
import { ExperimentConfigSnapshot, TaskType } from './experiment-config.schema.ts'
import { experimentStates } from './experiments.states.ts'

export const ExperimentId = Type.Object({ experiment_id: uuid('Identifier of the experiment.') })
export const State = oneOf(experimentStates, { description: 'State of the experiment.' })

const planStates = ['PENDING', 'RUNNING', 'SUCCEEDED', 'FAILED', 'SKIPPED', 'CANCELED'] as const

export const Step = named('ExperimentStep', {
  name: Type.String({
    description: 'prepare, stage, load, train, evaluate, export, verify or register, in this order.',
  }),
  title: Type.String({ description: 'Name for display.' }),
  state: oneOf(planStates, { description: 'State of the step.' }),
  progress: Type.Number({ minimum: 0, maximum: 1, description: 'Share that is done.' }),
  message: nullable(Type.String({ description: 'What it is doing, or why it failed.' })),
  started_at: nullable(timestamp('When it began.')),
  ended_at: nullable(timestamp('When it ended.')),
})
export const StepList = listOf(Step)

const Progress = named('ExperimentProgress', {
  percent: Type.Number({ minimum: 0, maximum: 100, description: 'Share of the training job that is done.' }),
  epoch: Type.Integer({ minimum: 0, description: 'Epochs done.' }),
  epochs: Type.Integer({ minimum: 0, description: 'Epochs planned; 0 before the job said so.' }),
})

const summary = {
  id: uuid('Identifier of the experiment.'),
  name: Type.String({ description: 'Name for display.' }),
  state: State,
  task: TaskType,
  framework: Type.String({ description: 'Key of the framework.' }),
  model: Type.String({ description: 'Key of the model.' }),
  dataset: named('ExperimentDataset', {
    id: Type.String({ description: 'Identifier of the dataset.' }),
    name: Type.String({ description: 'Its name when the experiment was made.' }),
    digest: sha256Digest('Digest of the content that is trained on.'),
  }),
  progress: Progress,
  metrics: Type.Record(Type.String(), Type.Number(), {
    description: 'Final numbers of the best checkpoint, such as test/top1; empty before there are any.',
  }),
  tracker_run_id: Type.String({ description: 'Run of the tracker that holds parameters, metrics and artifacts.' }),
  model_version: nullable(
    named('ExperimentModelVersion', {
      name: Type.String({ description: 'Registered model.' }),
      version: Type.String({ description: 'Its version.' }),
    }),
  ),
  created_by: Type.String({ description: 'E-mail of who made it.' }),
  created_at: timestamp('When it was made.'),
  started_at: nullable(timestamp('When work on it began.')),
  ended_at: nullable(timestamp('When it ended.')),
}

export const ExperimentSummary = named('ExperimentSummary', summary)
export const ExperimentPage = pageOf(ExperimentSummary)

export const ExperimentError = named('ExperimentError', {
  step: nullable(Type.String({ description: 'Step that failed.' })),
  reason: Type.String({ description: 'trainer, memory, export_check, lost, exit or platform.' }),
  message: Type.String({ description: 'What went wrong.' }),
  remedy: nullable(Type.String({ description: 'What to do about it.' })),
  exit_code: nullable(Type.Integer({ description: 'Exit code of the job; null when a signal ended it or none ran.' })),
  log_tail: Type.Array(Type.String(), { description: 'Last lines the job printed.' }),
})

export const Experiment = named('Experiment', {
  ...summary,
  config: ExperimentConfigSnapshot,
  classes: Type.Array(Type.String(), { description: 'Classes in the order of the outputs.' }),
  effective_hyperparameters: anyObject('The hyperparameters of the request over the defaults of the model.'),
  preset: nullable(Type.String({ description: 'Preset it was made from.' })),
  steps: Type.Array(Step),
  best_epoch: nullable(Type.Integer({ description: 'Epoch whose checkpoint was exported; 0 when none was finished.' })),
  environment: nullable(anyObject('Python and packages it was trained with.')),
  stop_requested_at: nullable(timestamp('When a stop was asked for.')),
  error: nullable(ExperimentError),
})

export const Deleted = named('ExperimentDeleted', {
  id: uuid('Identifier of the experiment.'),
  deleted: Type.Boolean({ description: 'Always true.' }),
})

export const MetricSeriesAnswer = named('ExperimentMetrics', {
  keys: Type.Array(Type.String(), { description: 'Keys there are series of.' }),
  max_points: Type.Integer({ description: 'Most points of a series.' }),
  series: Type.Array(
    named('ExperimentMetricSeries', {
      key: Type.String({ description: 'Such as train/loss or val/top1.' }),
      total: Type.Integer({ minimum: 0, description: 'Points before any were left out.' }),
      downsampled: Type.Boolean({ description: 'Whether points were left out; extremes and the last one never are.' }),
      points: Type.Array(
        named('ExperimentMetricPoint', {
          step: Type.Integer({ description: 'Epoch, or optimizer step for keys with batch_.' }),
          value: Type.Number({ description: 'Value.' }),
          ts: timestamp('When it was measured.'),
        }),
      ),
    }),
  ),
})

export const TrackerLink = named('ExperimentTracker', {
  tracker_run_id: Type.String({ description: 'Identifier of the run.' }),
  tracker_experiment_id: Type.String({ description: 'Identifier of the tracker experiment, a group of runs.' }),
  experiment_name: Type.String({ description: 'Name of that group.' }),
  run_name: Type.String({ description: 'Name of the run.' }),
  metrics_url: Type.String({ description: 'Where the metrics of the run are read.' }),
})

export const Launch = named('ExperimentLaunch', {
  experiment_id: uuid('Identifier of the experiment.'),
  environment: Type.Record(Type.String(), Type.String(), { description: 'The whole environment of the job.' }),
  volumes: Type.Array(
    named('ExperimentVolume', {
      name: Type.String({ description: 'work, dataset or trainer.' }),
      path: Type.String({
        description: 'Where it lies; $DATA_DIR and $TRAINER_DIR stand for folders of the platform.',
      }),
      read_only: Type.Boolean({ description: 'Whether the job only reads it.' }),
    }),
  ),
  pod: named('ExperimentPod', {
    name: Type.String({ description: 'Name of the job on the compute.' }),
    command: Type.Array(Type.String(), { description: 'Program and arguments.' }),
    folder: Type.String({ description: 'Working folder.' }),
    memory_bytes: nullable(Type.Integer({ description: 'Memory limit in bytes; null sets none.' })),
    threads: Type.Integer({ description: 'CPU threads it may use.' }),
  }),
  spec: anyJson('The job as the trainer reads it (trainer/PROTOCOL.md).'),
})

export const Runtime = named('TrainingRuntime', {
  driver: nullable(Type.String({ description: 'Compute driver; null while it holds no work.' })),
  slots: Type.Integer({ description: 'Trainings that run at the same time in one worker.' }),
  pending: Type.Integer({ description: 'Experiments that wait for a slot.' }),
  threads: Type.Integer({ description: 'CPU threads of one training.' }),
  memory_bytes: nullable(Type.Integer({ description: 'Memory limit of one training in bytes; null sets none.' })),
  environment: nullable(anyObject('Python and packages of the last training.')),
  running: Type.Array(
    named('RunningTraining', {
      experiment_id: uuid('Identifier of the experiment.'),
      tenant: Type.String({ description: 'Code of the tenant.' }),
      name: Type.String({ description: 'Name for display.' }),
      state: State,
      started_at: nullable(timestamp('When work on it began.')),
      job: named('TrainingJob', {
        name: Type.String({ description: 'Name on the compute.' }),
        state: oneOf(['absent', 'running', 'ended'], { description: 'What the compute says.' }),
        pid: nullable(Type.Integer({ description: 'Process id, where there is one.' })),
        memory_bytes: nullable(Type.Integer({ description: 'Memory in use.' })),
      }),
    }),
  ),
})
