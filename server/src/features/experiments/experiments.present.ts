import type { Config } from '../../platform/config.ts'
import { runNameOf } from './experiment-names.ts'
import type { ExperimentRow, ExperimentWithSteps } from './experiments.store.ts'
import { type Launch, withoutPlaces } from './launch.ts'
import { stepPlan } from './step-plan.ts'

/** One row of the list. */
export function experimentSummary(row: ExperimentRow) {
  const { percent, epoch, epochs, registeredName, registeredVersion } = row
  return {
    id: row.id,
    name: row.name,
    state: row.state,
    task: row.config.task,
    framework: row.framework,
    model: row.model,
    dataset: { id: row.datasetId, name: row.datasetName, digest: row.datasetDigest },
    progress: { percent, epoch, epochs },
    metrics: row.result?.metrics ?? {},
    tracker_run_id: row.trackerRunId,
    model_version: registeredName && registeredVersion ? { name: registeredName, version: registeredVersion } : null,
    created_by: row.createdBy,
    created_at: row.createdAt.toISOString(),
    started_at: iso(row.startedAt),
    ended_at: iso(row.endedAt),
  }
}

/** The whole experiment. */
export function experimentView({ experiment, runSteps }: ExperimentWithSteps) {
  return {
    ...experimentSummary(experiment),
    config: experiment.config,
    classes: experiment.classes,
    effective_hyperparameters: experiment.hyperparameters,
    preset: experiment.preset,
    steps: stepPlan(runSteps, experiment.jobSteps, experiment.state),
    best_epoch: experiment.result?.best_epoch ?? null,
    environment: experiment.environment,
    stop_requested_at: iso(experiment.stopRequestedAt),
    error: experiment.error,
  }
}

export function trackerView(row: ExperimentRow, publicUrl: string) {
  return {
    tracker_run_id: row.trackerRunId,
    tracker_experiment_id: row.trackerExperimentId,
    experiment_name: row.name,
    run_name: runNameOf(row),
    metrics_url: `${publicUrl}/api/v1/training/experiments/${row.id}/metrics`,
  }
}

/** What was launched, without the places of this machine's folders. */
export function launchView(row: ExperimentRow, config: Pick<Config, 'dataDir'>) {
  const hide = (_key: string, value: unknown) => (typeof value === 'string' ? withoutPlaces(value, config) : value)
  const { spec, work, volumes, threads } = JSON.parse(JSON.stringify(row.launch), hide) as Launch
  return {
    experiment_id: row.id,
    environment: work.env,
    volumes,
    pod: {
      name: work.name,
      command: work.command,
      folder: work.folder,
      memory_bytes: work.limits?.memoryBytes ?? null,
      threads,
    },
    spec,
  }
}

const iso = (date: Date | null) => date?.toISOString() ?? null
