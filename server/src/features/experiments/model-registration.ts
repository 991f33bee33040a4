import { readFile, stat } from 'node:fs/promises'
import { isAbsolute, join, posix } from 'node:path'
import type { TenantCtx } from '../../platform/context.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { registerModelVersion } from '../models/models.api.ts'
import { putRunArtifacts, setTrackerTags } from '../tracker/tracker.api.ts'
import { type Artifact, type ExperimentRow, findExperiment, updateExperiment } from './experiments.store.ts'
import type { WorkFolder } from './work-folder.ts'
import { removeScratch } from './work-removal.ts'

interface KeptFile {
  path: string
  digest: string
  size: number
}

/**
 * Takes what the job made into the blob store, shows it in the tracker and, when it was asked for, registers the model.
 * May be done again after any interruption: it registers once.
 */
export async function keepResult(ctx: TenantCtx, experimentId: string, folder: WorkFolder): Promise<string | null> {
  const experiment = await read(ctx, (tx) => findExperiment(tx, ctx.tenant.id, experimentId))
  if (!experiment) throw new Error('the experiment is gone')
  if (experiment.registeredVersion) return registeredAs(experiment)
  const description = await describeModel(ctx, experiment, folder)
  const files = await adoptArtifacts(ctx, experiment.artifacts.filter(isKept), folder)
  const registered = await transaction(ctx, async (tx) => {
    await putRunArtifacts(tx, ctx, experiment.trackerRunId, files)
    if (!experiment.config.register_model) return null
    const version = await registerModelVersion(tx, ctx, {
      ...versionOf(experiment),
      classes: description.classes,
      signature: { inputs: [description.input], outputs: [description.output] },
      files: files
        .filter(({ path }) => path.startsWith('model/'))
        .map((file) => ({ ...file, path: file.path.slice('model/'.length) })),
    })
    const change = { registeredName: version.name, registeredVersion: String(version.version) }
    await updateExperiment(tx, experimentId, change)
    await setTrackerTags(tx, ctx, experiment.trackerRunId, {
      'platform.model': `${version.name}/${version.version}`,
    })
    return { ...experiment, ...change }
  })
  await removeScratch(folder)
  return registered && registeredAs(registered)
}

const registeredAs = ({ registeredName, registeredVersion }: ExperimentRow) =>
  `${registeredName} version ${registeredVersion}`

const isKept = ({ path }: Artifact) => path !== 'checkpoints/last.pt'

function versionOf(experiment: ExperimentRow) {
  const { config, datasetId, datasetName, datasetDigest, result } = experiment
  return {
    name: config.register_model_name,
    runId: experiment.trackerRunId,
    experimentId: experiment.trackerExperimentId,
    dataset: { id: datasetId, name: datasetName, digest: datasetDigest },
    task: config.task,
    framework: config.framework,
    architecture: config.model,
    metrics: result?.metrics ?? {},
    environment: experiment.environment ?? {},
  }
}

interface TensorDescription {
  name: string
  datatype: string
  shape: number[]
}

interface ModelDescription {
  classes: string[]
  input: TensorDescription
  output: TensorDescription
}

/** The content of model.json, from the job's folder or, when an interruption came after its adoption, from the store. */
async function describeModel(ctx: TenantCtx, experiment: ExperimentRow, folder: WorkFolder): Promise<ModelDescription> {
  const path = join(folder.model, 'model.json')
  const text = await readFile(path, 'utf8').catch(async (error: NodeJS.ErrnoException) => {
    const artifact = experiment.artifacts.find((candidate) => candidate.path === 'model/model.json')
    if (error.code !== 'ENOENT' || !artifact) throw error
    const chunks = await (await ctx.blobs.open(`sha256:${artifact.sha256}`)).toArray()
    return Buffer.concat(chunks as Buffer[]).toString('utf8')
  })
  return JSON.parse(text) as ModelDescription
}

async function adoptArtifacts(ctx: TenantCtx, artifacts: Artifact[], folder: WorkFolder): Promise<KeptFile[]> {
  const files: KeptFile[] = []
  for (const { path, size, sha256 } of artifacts) {
    const digest = `sha256:${sha256}`
    if (posix.normalize(path) !== path || path.startsWith('..') || isAbsolute(path))
      throw new Error(`the job tells of a file outside its folder: ${path}`)
    const place = join(folder.output, path)
    if (await stat(place).catch(() => null)) await ctx.blobs.adopt(place, { expected: digest })
    else if (!(await ctx.blobs.use(digest))) throw new Error(`the job's file ${path} is gone`)
    files.push({ path, digest, size })
  }
  return files
}
