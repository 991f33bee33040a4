import { audited } from '../../platform/audit.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict, invalid, notFound } from '../../platform/errors.ts'
import { newId } from '../../platform/ids.ts'
import { cancelRun, getRun, readRunLog, startRun } from '../../platform/runs/runs.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { getModelVersion } from '../models/models.api.ts'
import { releaseImage } from '../registry/registry.api.ts'
import { imageBuild } from './images.runs.ts'
import { isBuilding } from './images.states.ts'
import { deleteImage, findImage, type ImageRow, insertImage, listImages, updateImage } from './images.store.ts'
import { findModelIssues } from './model-files.check.ts'

const defaultBuilder = 'default'
const newestLines = 1000
const foreignKeyViolation = '23503'

export interface BuildRequest {
  model_name: string
  version: string
  builder_tag?: string | null
}

export const subjectOf = (imageId: string) => `image:${imageId}`

/** Starts a build. Throws `not_found` for an unknown version, `conflict` while the same build is under way. */
export async function startBuild(ctx: TenantCtx, request: BuildRequest): Promise<ImageRow> {
  const builderTag = request.builder_tag || defaultBuilder
  if (builderTag !== defaultBuilder)
    throw invalid({ loc: ['body', 'builder_tag'], msg: `must be empty or '${defaultBuilder}'`, type: 'enum' })
  audited(ctx, `${request.model_name}:${request.version}`)
  return transaction(ctx, async (tx) => {
    const model = await getModelVersion(tx, ctx, request.model_name, request.version)
    const id = newId()
    const input = { imageId: id, modelName: model.name, modelVersion: model.version }
    const runId = await startRun(tx, ctx, imageBuild, input, { subject: subjectOf(id) })
    const { modelId, name: modelName } = model
    const image = { id, runId, modelId, modelName, modelVersion: Number(model.version), builderTag }
    if (!(await insertImage(tx, ctx.tenant.id, { ...image, createdBy: ctx.actor.email })))
      throw conflict('An image of this version is being built already.', { detail: { reason: 'build_in_progress' } })
    return loadImage(tx, ctx, id)
  })
}

export async function loadImage(tx: Tx, ctx: TenantCtx, imageId: string): Promise<ImageRow> {
  const image = await findImage(tx, ctx.tenant.id, imageId)
  if (!image) throw notFound('There is no such image.')
  return image
}

export const getImage = (ctx: TenantCtx, imageId: string): Promise<ImageRow> =>
  read(ctx, (tx) => loadImage(tx, ctx, imageId))

/** Newest first. */
export function findImages(ctx: TenantCtx, filter: { modelName?: string; version?: string }): Promise<ImageRow[]> {
  const { modelName, version } = filter
  // What is no number is the version of no model.
  if (version !== undefined && !/^[1-9]\d{0,8}$/.test(version)) return Promise.resolve([])
  const modelVersion = version === undefined ? undefined : Number(version)
  return read(ctx, (tx) => listImages(tx, ctx.tenant.id, { modelName, modelVersion }))
}

/** What waits is CANCELED at once, what is built as soon as it has stopped. Throws `conflict` when it has ended. */
export async function cancelBuild(ctx: TenantCtx, imageId: string): Promise<ImageRow> {
  audited(ctx, imageId)
  return transaction(ctx, async (tx) => {
    const image = await loadImage(tx, ctx, imageId)
    if (!isBuilding(image.state))
      throw conflict('The build has ended.', { detail: { reason: 'build_ended', state: image.state } })
    await cancelRun(tx, image.runId, `canceled by ${ctx.actor.email}`)
    // Its run may wait behind others, and needs a worker to end.
    if (image.state === 'PENDING') await updateImage(tx, imageId, { state: 'CANCELED', endedAt: ctx.clock.now() })
    return loadImage(tx, ctx, imageId)
  })
}

/** Throws `conflict` while it is being built or an endpoint serves it. What the registry holds stays there. */
export async function removeImage(ctx: TenantCtx, imageId: string): Promise<void> {
  audited(ctx, imageId)
  await transaction(ctx, async (tx) => {
    const image = await loadImage(tx, ctx, imageId)
    if (isBuilding(image.state))
      throw conflict('The image is being built; cancel the build first.', { detail: { reason: 'build_in_progress' } })
    await deleteImage(tx, ctx.tenant.id, imageId)
    await releaseImage(tx, ctx, subjectOf(imageId))
  }).catch((error: { code?: string }) => {
    if (error.code !== foreignKeyViolation) throw error
    throw conflict('An endpoint serves this image.', { detail: { reason: 'image_in_use' }, cause: error })
  })
}

/** A run of this image; its present one unless told. Throws `not_found`. */
export async function getBuildRun(ctx: TenantCtx, imageId: string, runId?: string) {
  return read(ctx, async (tx) => {
    const image = await loadImage(tx, ctx, imageId)
    const run = await getRun(tx, runId ?? image.runId)
    if (run.subject !== subjectOf(imageId)) throw notFound('There is no such run.')
    return { image, run }
  })
}

export const buildLog = (ctx: TenantCtx, runId: string): AsyncGenerator<string> =>
  readRunLog((work) => read(ctx, work), runId)

/** The last lines of a build, and whether there were more before. */
export async function tailBuildLog(ctx: TenantCtx, runId: string): Promise<{ lines: string[]; truncated: boolean }> {
  let lines: string[] = []
  let truncated = false
  for await (const text of buildLog(ctx, runId)) {
    lines.push(...text.split('\n').slice(0, -1))
    truncated ||= lines.length > newestLines
    lines = lines.slice(-newestLines)
  }
  return { lines, truncated }
}

/** What stands in the way of an image of this version. Throws `not_found`. */
export async function checkModelVersion(ctx: TenantCtx, name: string, version: string) {
  const model = await read(ctx, (tx) => getModelVersion(tx, ctx, name, version))
  return { name: model.name, version: model.version, issues: await findModelIssues(ctx.blobs, model.files) }
}
