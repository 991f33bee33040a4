import type { BuiltImage } from '../../adapters/image-builder/image-builder.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict } from '../../platform/errors.ts'
import { defineRun, type RunChange, type StepRun, step } from '../../platform/runs/define-run.ts'
import { getRun } from '../../platform/runs/runs.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { getModelVersion, type ModelVersion } from '../models/models.api.ts'
import { notify } from '../notifications/notifications.api.ts'
import { holdImage, publishImage } from '../registry/registry.api.ts'
import { buildProgress, buildSteps } from './images.states.ts'
import { updateImage } from './images.store.ts'
import { findModelIssues } from './model-files.check.ts'
import { modelRepository } from './model-repository.ts'

export interface BuildInput {
  imageId: string
  modelName: string
  modelVersion: string
}

type Build = StepRun<BuildInput>

/** Builds the image of a model version and publishes it, once, however often its worker dies. */
export const imageBuild = defineRun<BuildInput>({
  kind: 'images.build',
  maxConcurrent: 2,
  steps: [
    step('check', 'Check the model files', checkModel),
    step('build', 'Build the image', build),
    step('publish', 'Publish to the registry', publish),
  ],
  changed,
})

/** Runs of one tenant alone, so the context is always a tenant's. */
const tenantOf = (s: Build) => s.ctx as TenantCtx

const versionOf = (s: Build): Promise<ModelVersion> =>
  read(s.ctx, (tx) => getModelVersion(tx, tenantOf(s), s.input.modelName, s.input.modelVersion))

async function checkModel(s: Build): Promise<void> {
  const { files } = await versionOf(s)
  const issues = await findModelIssues(s.ctx.blobs, files)
  for (const { message } of issues) s.log(message)
  if (issues.length > 0) throw conflict(issues.map(({ message }) => message).join(' '), { detail: { issues } })
  s.log(`${files.length} files, ${files.reduce((sum, { size }) => sum + size, 0)} bytes`)
}

async function build(s: Build): Promise<BuiltImage> {
  const { name, version, createdAt, files } = await versionOf(s)
  return s.ctx.adapters.imageBuilder.build({
    model: { tenant: tenantOf(s).tenant.code, name, version, createdAt, files },
    signal: s.signal,
    progress: s.progress,
    log: s.log,
  })
}

async function publish(s: Build): Promise<void> {
  const ctx = tenantOf(s)
  const { imageId, modelName, modelVersion } = s.input
  const { sizeBytes, ...blobs } = s.output<BuiltImage>('build')
  const published = await transaction(ctx, async (tx) => {
    const image = { repository: modelRepository(modelName), tag: modelVersion, ...blobs }
    const { repository, tag, digest, reference } = await publishImage(tx, ctx, image)
    await updateImage(tx, imageId, { repository, tag, digest, sizeBytes })
    const reason = `Image of model ${modelName}, version ${modelVersion}`
    await holdImage(tx, ctx, { repository, digest, holder: `image:${imageId}`, reason })
    return reference
  })
  s.log(`published as ${published}`)
}

async function changed(tx: Tx, change: RunChange<BuildInput>): Promise<void> {
  const { imageId } = change.input
  if (change.what === 'step') {
    const { id, state, progress } = change.step
    const known = buildSteps.find((candidate) => candidate.id === id)
    if (known && (state === 'running' || state === 'succeeded'))
      await updateImage(tx, imageId, { state: known.state, progress: buildProgress(id, progress) })
  } else if (change.what === 'run') {
    const { state, error } = change
    const endedAt = new Date()
    if (state === 'succeeded') await updateImage(tx, imageId, { state: 'READY', progress: 1, endedAt })
    if (state === 'canceled') await updateImage(tx, imageId, { state: 'CANCELED', endedAt })
    if (state === 'failed')
      await updateImage(tx, imageId, { state: 'FAILED', endedAt, error: error && pickError(error) })
    if (state === 'succeeded' || state === 'failed') await tellStarter(tx, change, error?.message ?? null)
  }
}

/** The end is news to whoever started the build. */
async function tellStarter(
  tx: Tx,
  { runId, tenantId, input }: RunChange<BuildInput>,
  fault: string | null,
): Promise<void> {
  const { actorId } = await getRun(tx, runId)
  if (!actorId || !tenantId) return
  await notify(tx, {
    tenantId,
    to: { userIds: [actorId] },
    group: 'images',
    title: `The image of ${input.modelName} version ${input.modelVersion} ${fault ? 'failed' : 'is ready'}`,
    body: fault,
    link: `/images/${input.imageId}`,
    dedupeKey: `image:${input.imageId}`,
  })
}

const pickError = ({ message, step }: { message: string; step: string | null }) => ({ message, step })
