import { access, open } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { ArchiveError } from '../../platform/archives/archive-error.ts'
import { readZip, type ZipMember, type ZipProgress } from '../../platform/archives/zip-archive.ts'
import { openChunkFile } from '../../platform/blobs/chunk-file.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict, PlatformError } from '../../platform/errors.ts'
import { defineRun, type RunChange, type StepRun, step } from '../../platform/runs/define-run.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { requireWritable } from './dataset-access.ts'
import { noteFilesChanged } from './dataset-changes.ts'
import { membersPresent, type NewFile, registerMembers } from './dataset-files.store.ts'
import {
  clearUpload,
  findUploadById,
  listChunkDigests,
  reopenUpload,
  stagedPaths,
  stageMembers,
  type UploadResult,
  type UploadRow,
  updateUpload,
} from './dataset-uploads.store.ts'
import { type DatasetRow, findDataset, lockDataset, settleDataset } from './datasets.store.ts'
import { kindOf } from './file-kinds.ts'
import { inspectImage } from './image-inspection.ts'
import { uploadDigests } from './upload-digests.ts'
import { removeUploadFolder, uploadPath } from './upload-folders.ts'
import { uploadWrites } from './upload-writes.ts'
import { wholeContent } from './whole-content.ts'

export interface AssemblyInput {
  uploadId: string
  datasetId: string
}

/** Members put into the blob store at once: most of their time is waiting for the disk. */
const membersAtOnce = 16
const membersPerBatch = 500
/** Larger images are looked into by the validation, a few at a time. */
const inspectedBytesMax = 2 * 1024 * 1024
/** Names in the result of a session; the counts are whole. */
export const resultNamesMax = 1000

/**
 * Makes files of a complete upload: checks its digest, takes a ZIP apart, registers everything at once, and waits for
 * the validation. Each step may be interrupted anywhere and goes on where it was.
 * @source service §3.3, contract B5.5–B5.7
 */
export const assembleUpload = defineRun<AssemblyInput>({
  kind: 'datasets.assembleUpload',
  maxConcurrent: 2,
  steps: [
    step('digest', 'Check the digest of the upload', sayingFull(checkDigest)),
    step('unpack', 'Store the content', sayingFull(unpack)),
    step('register', 'Register the files', register),
    step('validate', 'Validate the dataset', awaitValidation),
  ],
  changed,
})

const fullStorage = 'insufficient_storage'

/** A full disk is nobody's fault: the session is told apart from one that failed. */
function sayingFull<T>(work: (s: StepRun<AssemblyInput>) => Promise<T>) {
  return (s: StepRun<AssemblyInput>): Promise<T> =>
    work(s).catch((error) => {
      if (!(error instanceof PlatformError) || error.code !== fullStorage) throw error
      throw new PlatformError(fullStorage, error.message, { detail: { reason: fullStorage }, cause: error })
    })
}

async function sessionOf(s: StepRun<AssemblyInput>): Promise<{ ctx: TenantCtx; upload: UploadRow; path: string }> {
  const ctx = s.ctx as TenantCtx
  const upload = await read(ctx, (tx) => findUploadById(tx, ctx.tenant.id, s.input.uploadId))
  if (!upload) throw fault('aborted', 'The upload is gone.')
  return { ctx, upload, path: await uploadPath(ctx, upload.id) }
}

/** A failure that the client of the session is told. @source contract B5.6 */
const fault = (reason: string, message: string) => new PlatformError('bad_request', message, { detail: { reason } })

/** Drops what was sent and fails. */
async function refuse(ctx: TenantCtx, upload: UploadRow, reason: string, message: string): Promise<never> {
  await removeUploadFolder(ctx, upload.id)
  throw fault(reason, message)
}

async function checkDigest(s: StepRun<AssemblyInput>): Promise<{ digest: string }> {
  const { ctx, upload, path } = await sessionOf(s)
  if (!(await exists(path))) throw fault('aborted', 'The content of the upload is gone.')
  await uploadWrites.end(upload.id, conflict('The upload was completed meanwhile.', { detail: { reason: 'not_open' } }))
  const known = await uploadDigests.finish(upload.id, await read(ctx, (tx) => listChunkDigests(tx, upload.id)))
  const file = await openChunkFile(path, upload)
  const onProgress = (bytes: number) => s.progress(bytes / upload.size)
  const digest = known ? `sha256:${known}` : await file.digest({ signal: s.signal, onProgress })
  if (upload.sha256 && digest !== `sha256:${upload.sha256}`)
    return refuse(ctx, upload, 'sha256_mismatch', `The content has ${digest}, announced was sha256:${upload.sha256}.`)
  return { digest }
}

interface Unpacked {
  skipped: UploadResult['skipped']
  skippedTotal: number
}

async function unpack(s: StepRun<AssemblyInput>): Promise<Unpacked> {
  const { ctx, upload, path } = await sessionOf(s)
  const { digest } = s.output<{ digest: string }>('digest')
  const room = await roomOf(ctx, upload.datasetId)
  if ((await exists(path)) && (await isZip(path))) return unpackZip(s, room)
  if (upload.size > room) return refuse(ctx, upload, 'quota_exceeded', `The dataset has room for ${room} bytes.`)
  // Before an interruption the file may have been moved into the store already.
  const blob = (await exists(path)) ? await ctx.blobs.adopt(path, { digest }) : await ctx.blobs.use(digest)
  if (!blob) throw fault('aborted', 'The content of the upload is gone.')
  await stage(ctx, upload, [memberOf(upload.filename, blob)])
  return { skipped: [], skippedTotal: 0 }
}

async function unpackZip(s: StepRun<AssemblyInput>, totalBytes: number): Promise<Unpacked> {
  const { ctx, upload, path } = await sessionOf(s)
  const { signal } = s
  const done = await read(ctx, (tx) => stagedPaths(tx, upload.id))
  let batch: NewFile[] = []
  const flush = async () => {
    const members = batch
    batch = []
    await stage(ctx, upload, members)
  }
  const visit = async (member: ZipMember) => {
    if (done.has(member.path)) return
    const file = await storeMember(ctx, member, signal)
    batch.push(file)
    if (batch.length >= membersPerBatch) await flush()
  }
  const onProgress = (now: ZipProgress, total: ZipProgress) =>
    s.progress(now.bytes / Math.max(1, total.bytes), `${now.members} of ${total.members} members`)
  try {
    const { skipped } = await readZip(path, { totalBytes }, visit, { signal, concurrency: membersAtOnce, onProgress })
    await flush()
    return { skipped: skipped.slice(0, resultNamesMax), skippedTotal: skipped.length }
  } catch (error) {
    if (error instanceof ArchiveError) return refuse(ctx, upload, 'archive_invalid', error.message)
    throw error
  }
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

/** Puts a member into the blob store; a small image is looked into at once, while its bytes are at hand. */
async function storeMember(ctx: TenantCtx, member: ZipMember, signal: AbortSignal): Promise<NewFile> {
  const { path, size } = member
  if (kindOf(path).kind !== 'image' || size > inspectedBytesMax)
    return memberOf(path, await ctx.blobs.put(member.open(), { signal }))
  const content = await buffer(member.open())
  const [blob, inspection] = await Promise.all([ctx.blobs.put(wholeContent(content)), inspectImage(path, content)])
  return { ...memberOf(path, blob), inspection }
}

const memberOf = (path: string, blob: { digest: string; size: number }): NewFile => ({ path, ...blob, ...kindOf(path) })

async function stage(ctx: TenantCtx, upload: UploadRow, members: NewFile[]): Promise<void> {
  if (members.length > 0) await transaction(ctx, (tx) => stageMembers(tx, upload, members))
}

/** Bytes that the dataset may still grow by; what one without files of ours says of itself does not count. */
export const roomIn = ({ config }: TenantCtx, { revision, sizeBytes }: Pick<DatasetRow, 'revision' | 'sizeBytes'>) =>
  Math.max(0, config.datasetQuotaBytes - (revision > 0 ? sizeBytes : 0))

/** The same, of a dataset that may be gone. */
export async function roomOf(ctx: TenantCtx, datasetId: string): Promise<number> {
  const dataset = await read(ctx, (tx) => findDataset(tx, ctx.tenant.id, datasetId))
  return dataset ? roomIn(ctx, dataset) : 0
}

/** By signature, never by name. @source APPNOTE 6.3.10 §4.3.6 */
export async function isZip(path: string): Promise<boolean> {
  const file = await open(path, 'r')
  try {
    const head = Buffer.alloc(4)
    await file.read(head, 0, 4, 0)
    return head.equals(Buffer.from('PK\x03\x04')) || head.equals(Buffer.from('PK\x05\x06'))
  } finally {
    await file.close()
  }
}

async function register(s: StepRun<AssemblyInput>): Promise<null> {
  const { ctx, upload } = await sessionOf(s)
  const { skipped, skippedTotal } = s.output<Unpacked>('unpack')
  await transaction(ctx, async (tx) => {
    await requireWritable(tx, ctx, upload.datasetId)
    const target = { tenantId: ctx.tenant.id, datasetId: upload.datasetId, uploadId: upload.id }
    const present = await membersPresent(tx, target, resultNamesMax - skipped.length)
    const created = await registerMembers(tx, target, resultNamesMax)
    const result: UploadResult = {
      created: created.total,
      skipped: [...skipped, ...present.first.map((path) => ({ path, reason: 'the dataset has it already' }))],
      skipped_total: skippedTotal + present.total,
      file_ids: created.first,
    }
    await updateUpload(tx, upload.id, { result })
    await clearUpload(tx, upload.id)
    await noteFilesChanged(tx, ctx, upload.datasetId)
  })
  await removeUploadFolder(ctx, upload.id)
  return null
}

/** Until the report fits the files. Its findings are the dataset's, not the upload's. */
async function awaitValidation(s: StepRun<AssemblyInput>): Promise<null> {
  const ctx = s.ctx as TenantCtx
  for (;;) {
    s.signal.throwIfAborted()
    const dataset = await read(ctx, (tx) => findDataset(tx, ctx.tenant.id, s.input.datasetId))
    if (!dataset || dataset.revision <= dataset.validatedRevision) return null
    await sleep(100, undefined, { signal: s.signal })
  }
}

async function changed(tx: Tx, change: RunChange<AssemblyInput>): Promise<void> {
  if (change.what !== 'run' || !['succeeded', 'failed', 'canceled'].includes(change.state)) return
  const { uploadId, datasetId } = change.input
  const tenantId = change.tenantId!
  if (!(await lockDataset(tx, tenantId, datasetId))) return
  const endedAt = new Date()
  if (change.state === 'succeeded') await updateUpload(tx, uploadId, { state: 'done', endedAt })
  else {
    const code = (change.error?.detail as { reason?: string } | undefined)?.reason ?? 'assembly_failed'
    const message = change.error?.message ?? 'The upload could not be assembled.'
    // Every chunk is still there: with more room it can be completed again.
    if (code === fullStorage) await reopenUpload(tx, uploadId, { code, message })
    else {
      await updateUpload(tx, uploadId, { state: 'failed', error: { code, message }, endedAt })
      await clearUpload(tx, uploadId)
    }
  }
  await settleDataset(tx, tenantId, datasetId)
}
