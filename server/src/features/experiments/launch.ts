import { mkdir, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { WorkSpec } from '../../adapters/compute/compute.ts'
import type { Config as ServerConfig } from '../../platform/config.ts'
import type { StagedDataset } from '../dataset-cache/dataset-cache.api.ts'
import type { ExperimentRow } from './experiments.store.ts'
import { jobName, type WorkFolder, workFolder } from './work-folder.ts'

export const trainerFolder = fileURLToPath(new URL('../../../../trainer', import.meta.url))

/** Everything a training job gets: what it is told (its spec) and what it runs as. */
export interface Launch {
  spec: Record<string, unknown>
  work: WorkSpec
  volumes: { name: string; path: string; read_only: boolean }[]
  threads: number
}

export const trainingThreads = (config: ServerConfig): number => config.trainerThreads || availableParallelism()

/** A text without the places of this machine's folders, which are nobody's business: `$DATA_DIR`, `$TRAINER_DIR`. */
export const withoutPlaces = (text: string, { dataDir }: Pick<ServerConfig, 'dataDir'>): string =>
  text.replaceAll(dataDir, '$DATA_DIR').replaceAll(trainerFolder, '$TRAINER_DIR')

/** The job of an experiment on this machine. */
export function launchOf(
  config: ServerConfig,
  experiment: ExperimentRow,
  data: StagedDataset,
  python: string,
  tenantCode: string,
): Launch {
  const folder = workFolder(config.dataDir, experiment.id)
  const threads = trainingThreads(config)
  return {
    spec: specOf(experiment, data, folder, threads),
    work: {
      name: jobName(experiment.id),
      command: [python, '-m', 'platform_trainer', '--spec', folder.spec],
      env: environmentOf(folder, threads),
      folder: folder.root,
      limits: config.trainingMemoryBytes > 0 ? { memoryBytes: config.trainingMemoryBytes } : {},
      labels: { kind: 'experiment', experiment: experiment.id, tenant: tenantCode },
    },
    volumes: [
      { name: 'work', path: folder.root, read_only: false },
      { name: 'dataset', path: data.root, read_only: true },
      { name: 'trainer', path: trainerFolder, read_only: true },
    ],
    threads,
  }
}

/** Writes what the job reads. `resume` continues after the last whole epoch, if there is one. */
export async function writeSpec(folder: WorkFolder, launch: Launch, resume: boolean): Promise<void> {
  await mkdir(join(folder.root, 'home'), { recursive: true, mode: 0o700 })
  await writeFile(folder.spec, JSON.stringify({ ...launch.spec, resume }, null, 2))
}

/** @source trainer/PROTOCOL.md "Spec" */
function specOf(experiment: ExperimentRow, data: StagedDataset, folder: WorkFolder, threads: number) {
  const { config } = experiment
  return {
    protocol: 1,
    task: config.task,
    framework: config.framework,
    model: config.model,
    data: { root: data.root, index: data.index, classes: experiment.classes },
    output: folder.output,
    events: folder.events,
    hyperparameters: experiment.hyperparameters,
    split: { validation_fraction: config.split.mode === 'ratio' ? 0 : config.split.validation_fraction },
    seed: config.split.seed,
    threads,
    device: config.gpu > 0 ? 'cuda' : 'cpu',
    evaluation: { split: config.evaluation.split },
    export: { format: config.export.format, opset: config.export.opset },
  }
}

/** Nothing of the server's own environment, so no secret, no proxy and no other Python's packages. */
const environmentOf = (folder: WorkFolder, threads: number): Record<string, string> => ({
  PYTHONPATH: trainerFolder,
  PYTHONUNBUFFERED: '1',
  // The trainer's own folder may be read-only, and must not change by being used.
  PYTHONDONTWRITEBYTECODE: '1',
  PYTHONNOUSERSITE: '1',
  OMP_NUM_THREADS: String(threads),
  HOME: join(folder.root, 'home'),
  LANG: 'C.UTF-8',
})
