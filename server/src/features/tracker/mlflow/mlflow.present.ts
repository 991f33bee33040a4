import type { TenantCtx } from '../../../platform/context.ts'
import { artifactRootUri, runArtifactFolder } from '../artifact-addresses.api.ts'
import type { ExperimentRow } from '../experiments.store.ts'
import type { RunData } from '../run-data.store.ts'
import type { TrackerRunRow } from '../runs.store.ts'

/** Labels as the protocol lists them. */
export const tagList = (tags: Record<string, string>) => Object.entries(tags).map(([key, value]) => ({ key, value }))

export const experimentView = (ctx: TenantCtx, experiment: ExperimentRow) => ({
  experiment_id: String(experiment.experimentId),
  name: experiment.name,
  artifact_location: experiment.artifactLocation ?? `${artifactRootUri(ctx)}/${experiment.experimentId}`,
  lifecycle_stage: experiment.lifecycleStage,
  last_update_time: experiment.updatedMs,
  creation_time: experiment.createdMs,
  tags: tagList(experiment.tags),
})

/** Address of a run's files. @source contract B10.8 */
export const runArtifactUri = (ctx: TenantCtx, run: TrackerRunRow): string =>
  run.artifactLocation === null
    ? `${artifactRootUri(ctx)}/${runArtifactFolder(run.experimentId, run.runId)}`
    : `${run.artifactLocation.replace(/\/+$/, '')}/${run.runId}/artifacts`

export const runInfoView = (ctx: TenantCtx, run: TrackerRunRow) => ({
  run_id: run.runId,
  run_uuid: run.runId,
  run_name: run.name,
  experiment_id: String(run.experimentId),
  user_id: run.userName,
  status: run.status,
  ...(run.startMs === null ? {} : { start_time: run.startMs }),
  ...(run.endMs === null ? {} : { end_time: run.endMs }),
  artifact_uri: runArtifactUri(ctx, run),
  lifecycle_stage: run.lifecycleStage,
})

export const runView = (ctx: TenantCtx, run: TrackerRunRow, data: RunData) => ({
  info: runInfoView(ctx, run),
  data: { metrics: data.metrics, params: data.params, tags: data.tags },
  inputs: { dataset_inputs: data.datasets, model_inputs: data.modelInputs },
  outputs: { model_outputs: data.modelOutputs },
})

/** JSON has no NaN and no infinity; the protocol writes them as texts. @source contract B10.3 */
export const doubleView = (value: number): number | string => (Number.isFinite(value) ? value : String(value))
