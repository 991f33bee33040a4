import { buffer } from 'node:stream/consumers'
import { audited } from '../../platform/audit.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { notFound, PlatformError, payloadTooLarge } from '../../platform/errors.ts'
import { ordering } from '../../platform/http/lists.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { checkWritable, requireDataset, requireDeletable, requireWritable } from './dataset-access.ts'
import { roomOf } from './dataset-assembly.runs.ts'
import { noteFilesChanged } from './dataset-changes.ts'
import { fileSorts } from './dataset-files.schema.ts'
import {
  type FileFilter,
  type FileRow,
  findFile,
  listObjects,
  putFile,
  listFiles as queryFiles,
  deleteFile as removeFile,
  savePreview,
} from './dataset-files.store.ts'
import { imageBytesMax, inspectBlob } from './dataset-validation.runs.ts'
import { saveInspections } from './dataset-validation.store.ts'
import { datasetDigest, getDataset } from './datasets.service.ts'
import { settleDataset, updateDataset } from './datasets.store.ts'
import { kindOf } from './file-kinds.ts'
import { imageFrom, pixelBytes } from './image-source.ts'
import { knownTotals } from './known-totals.ts'
import { decodedImages, encodedImages } from './memory-budget.ts'
import { baseName } from './upload-names.ts'
import { wholeContent } from './whole-content.ts'

const noFile = () => notFound('There is no such file in this dataset.')
/** Longer side of a preview, in pixels. */
const previewSide = 1024

export async function getFile(ctx: TenantCtx, datasetId: string, fileId: string): Promise<FileRow> {
  const file = await read(ctx, (tx) => findFile(tx, ctx.tenant.id, datasetId, fileId))
  if (!file) throw noFile()
  return file
}

/** A file with the objects annotated on it. */
export async function getFileWithObjects(ctx: TenantCtx, datasetId: string, fileId: string) {
  const file = await getFile(ctx, datasetId, fileId)
  return { file, objects: await read(ctx, (tx) => listObjects(tx, file)) }
}

export async function listFiles(ctx: TenantCtx, datasetId: string, filter: FileFilter) {
  const totals = knownTotals(await getDataset(ctx, datasetId))
  const target = { tenantId: ctx.tenant.id, datasetId }
  return read(ctx, (tx) => queryFiles(tx, target, filter, ordering(fileSorts, filter), totals))
}

/**
 * One file in one request, looked into before it answers. `created` is false when the dataset has it already; the same
 * name with other content replaces the file. @source contract DS-10, B5.2
 */
export async function uploadFile(
  ctx: TenantCtx,
  datasetId: string,
  upload: { filename: string; content: AsyncIterable<Buffer> },
  signal: AbortSignal,
): Promise<{ file: FileRow; created: boolean }> {
  const path = baseName(upload.filename)
  audited(ctx, datasetId, { filename: path })
  await read(ctx, (tx) => checkWritable(tx, ctx, datasetId))
  const maxBytes = Math.min(ctx.config.maxUploadBytes, await roomOf(ctx, datasetId))
  const blob = await ctx.blobs.put(upload.content, { maxBytes, signal })
  const { kind, mediaType } = kindOf(path)
  const inspection = kind === 'image' ? await inspectBlob(ctx, path, blob.digest, blob.size) : null
  return transaction(ctx, async (tx) => {
    const target = { tenantId: ctx.tenant.id, datasetId }
    const dataset = await requireWritable(tx, ctx, datasetId)
    if (dataset.sizeBytes + blob.size > ctx.config.datasetQuotaBytes) throw payloadTooLarge()
    const { file, created } = await putFile(
      tx,
      target.tenantId,
      datasetId,
      { path, kind, mediaType, ...blob },
      'upload',
    )
    if (!created) return { file, created }
    if (inspection) await saveInspections(tx, target, [{ id: file.id, digest: file.digest, ...inspection }])
    await noteFilesChanged(tx, ctx, datasetId)
    return { file: (await findFile(tx, target.tenantId, datasetId, file.id))!, created }
  })
}

/** @source contract DS-17, B5.8 */
export async function deleteFile(ctx: TenantCtx, datasetId: string, fileId: string, force: boolean): Promise<void> {
  audited(ctx, datasetId, { file: fileId, force })
  await transaction(ctx, async (tx) => {
    const dataset = await requireDataset(tx, ctx, datasetId)
    const file = await findFile(tx, ctx.tenant.id, datasetId, fileId)
    if (!file) throw noFile()
    await requireDeletable(tx, ctx, dataset, force)
    await removeFile(tx, ctx.tenant.id, datasetId, fileId)
    if (!dataset.frozenAt) return noteFilesChanged(tx, ctx, datasetId)
    // Forced: what is left stays frozen, under the digest that it has now.
    await updateDataset(tx, ctx.tenant.id, datasetId, { digest: await datasetDigest(tx, ctx.tenant.id, datasetId) })
    await settleDataset(tx, ctx.tenant.id, datasetId)
  })
}

/** The preview of an image as a blob, made at the first request. Throws `not_found` when the file has none. */
export async function previewOf(ctx: TenantCtx, file: FileRow): Promise<{ digest: string; size: number }> {
  if (file.previewDigest && file.previewSize !== null) return { digest: file.previewDigest, size: file.previewSize }
  if (file.kind !== 'image' || file.status === 'INVALID') throw notFound('There is no preview of this file.')
  if (file.size > imageBytesMax) throw notFound('There is no preview of so large a file.')
  const webp = await encodedImages(file.size, async () => makePreview(await buffer(await ctx.blobs.open(file.digest))))
  const preview = await ctx.blobs.put(wholeContent(webp))
  await transaction({ ...ctx, audit: null }, (tx) => savePreview(tx, file, preview))
  return preview
}

/** Upright, at most 1,024 pixels, without the metadata of the camera. */
async function makePreview(content: Buffer): Promise<Buffer> {
  try {
    const image = imageFrom(content, { failOn: 'truncated', sequentialRead: true })
    const { width, height } = await image.metadata()
    return await decodedImages(width * height * pixelBytes, () =>
      image
        .autoOrient()
        .resize(previewSide, previewSide, { fit: 'inside', withoutEnlargement: true })
        .webp({ quality: 80, effort: 2 })
        .toBuffer(),
    )
  } catch (cause) {
    throw new PlatformError('not_found', 'There is no preview of this file: it can not be read.', { cause })
  }
}
