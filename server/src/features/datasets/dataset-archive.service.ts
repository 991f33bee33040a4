import { open } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { audited } from '../../platform/audit.ts'
import { inBatches, namingFullStorage, writeBatches } from '../../platform/blobs/content-batches.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { conflict, invalid, PlatformError } from '../../platform/errors.ts'
import { newId } from '../../platform/ids.ts'
import { startRun } from '../../platform/runs/runs.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { checkWritable, requireWritable } from './dataset-access.ts'
import { assembleUpload, isZip } from './dataset-assembly.runs.ts'
import { deleteUpload, findUploadById, insertUpload, type UploadResult, updateUpload } from './dataset-uploads.store.ts'
import { lockDataset, settleDataset } from './datasets.store.ts'
import { removeUploadFolder, uploadPath } from './upload-folders.ts'
import { baseName } from './upload-names.ts'

/**
 * A whole archive in one request: received like the one chunk of a session and assembled like one, so it survives what
 * sessions survive; answers when its files are registered. Throws a 422 for an archive that must not be used.
 * @source contract DS-11, B5.7
 */
export async function uploadArchive(
  ctx: TenantCtx,
  datasetId: string,
  file: { filename: string; content: AsyncIterable<Buffer> },
  signal: AbortSignal,
): Promise<UploadResult> {
  const filename = baseName(file.filename)
  audited(ctx, datasetId, { filename })
  await read(ctx, (tx) => checkWritable(tx, ctx, datasetId))
  const id = newId()
  try {
    const size = await receive(ctx, id, file.content, signal)
    await transaction(ctx, async (tx) => {
      await requireWritable(tx, ctx, datasetId)
      const received = { receivedChunks: 1, receivedBytes: size, state: 'assembling' as const }
      const upload = { id, datasetId, filename, size, sha256: null, chunkSize: size, createdBy: ctx.actor.email }
      await insertUpload(tx, ctx.tenant.id, { ...upload, ...received }, ctx.clock.now())
      const runId = await startRun(tx, ctx, assembleUpload, { uploadId: id, datasetId }, { subject: `upload:${id}` })
      await updateUpload(tx, id, { runId })
      await settleDataset(tx, ctx.tenant.id, datasetId)
    })
  } catch (error) {
    await removeUploadFolder(ctx, id)
    throw error
  }
  return registered(ctx, id, signal)
}

async function receive(
  ctx: TenantCtx,
  id: string,
  content: AsyncIterable<Buffer>,
  signal: AbortSignal,
): Promise<number> {
  const path = await uploadPath(ctx, id)
  const file = await open(path, 'wx', 0o600)
  try {
    const batches = inBatches(content, { maxBytes: ctx.config.maxUploadBytes, signal })
    const size = await namingFullStorage(() => writeBatches(file, batches))
    if (!(await isZip(path))) throw refused('not_an_archive', 'This is not a ZIP archive: it does not begin like one.')
    return size
  } finally {
    await file.close()
  }
}

const refused = (type: string, msg: string) => invalid({ loc: ['body', 'file'], msg, type })

/** The result, as soon as the files are there; the validation goes on behind it. */
async function registered(ctx: TenantCtx, id: string, signal: AbortSignal): Promise<UploadResult> {
  for (;;) {
    signal.throwIfAborted()
    const upload = await read(ctx, (tx) => findUploadById(tx, ctx.tenant.id, id))
    if (!upload) throw conflict('The dataset was deleted meanwhile.', { detail: { reason: 'deleted' } })
    if (upload.result) return upload.result
    if (upload.state === 'open') {
      // Given back for want of room: nobody can complete it, for this request is all there was of it.
      await transaction({ ...ctx, audit: null }, async (tx) => {
        await lockDataset(tx, ctx.tenant.id, upload.datasetId)
        await deleteUpload(tx, id)
        await settleDataset(tx, ctx.tenant.id, upload.datasetId)
      })
      await removeUploadFolder(ctx, id)
      throw new PlatformError('insufficient_storage', upload.error?.message ?? 'There is no room left on the storage.')
    }
    if (upload.state === 'failed') throw refused(upload.error!.code, upload.error!.message)
    await sleep(50)
  }
}
