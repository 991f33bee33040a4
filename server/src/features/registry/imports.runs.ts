import { createReadStream } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { ArchiveError } from '../../platform/archives/archive-error.ts'
import { extractTar } from '../../platform/archives/tar-archive.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import type { RetentionRule } from '../../platform/retention.ts'
import { defineRun, type RunChange, type StepRun, step, WorkerStopping } from '../../platform/runs/define-run.ts'
import { getRun } from '../../platform/runs/runs.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { notify } from '../notifications/notifications.api.ts'
import { readImageArchive } from './archive-reader.ts'
import { archiveFolder, importFault } from './image-archive.ts'
import { storeImages } from './image-intake.ts'
import { archivePath, removeImportFiles, unpackedPath } from './import-files.ts'
import { deleteEndedImports, findImport, type ImportError, type ImportRow, updateLiveImport } from './imports.store.ts'

export const importGroup = { name: 'registry_imports', title: 'Image imports' }

interface ImportInput {
  importId: string
}

type ImportStep = StepRun<ImportInput> & { ctx: TenantCtx }

const mebibyte = 1024 * 1024
const entriesMax = 100_000
/** What an honest archive never reaches. */
const expansionMax = 200

/** From an archive on the disk to images in the registry. @source service §3.4 */
export const importRun = defineRun<ImportInput>({
  kind: 'registry.import',
  maxConcurrent: 1,
  steps: [
    step('assemble', 'Unpack the archive', (s) => tidily(s, assemble)),
    step('inspect', 'Check and store its images', (s) => tidily(s, inspect)),
  ],
  changed,
})

/** Whatever ends the import takes its files along, but not the end of the process: the step starts again then. */
async function tidily(s: StepRun<ImportInput>, work: (s: ImportStep) => Promise<void>): Promise<void> {
  const { config } = s.ctx
  try {
    await work(s as ImportStep)
  } catch (error) {
    if (!(s.signal.reason instanceof WorkerStopping)) await removeImportFiles(config, s.input.importId)
    throw error
  }
}

async function assemble(s: ImportStep): Promise<void> {
  const { ctx, input, signal } = s
  const { config } = ctx
  const folder = unpackedPath(config, input.importId)
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const row = await read(ctx, (tx) => findImport(tx, ctx.tenant.id, input.importId))
  const size = row?.sizeBytes ?? 0
  const totalBytes = Math.min(config.maxUploadBytes, Math.max(64 * mebibyte, size * expansionMax))
  const archive = told(createReadStream(archivePath(config, input.importId), { highWaterMark: mebibyte }), (bytes) =>
    s.progress(bytes / size, 'unpacking'),
  )
  try {
    await extractTar(archive, folder, { totalBytes, entries: entriesMax }, { signal })
  } catch (error) {
    throw error instanceof ArchiveError ? importFault('bad_tar', error.message) : error
  }
}

async function* told(content: AsyncIterable<Buffer>, tell: (bytes: number) => void): AsyncGenerator<Buffer> {
  let bytes = 0
  for await (const part of content) {
    bytes += part.length
    tell(bytes)
    yield part
  }
}

async function inspect(s: ImportStep): Promise<void> {
  const { ctx, input } = s
  const images = await readImageArchive(await archiveFolder(unpackedPath(ctx.config, input.importId)))
  s.signal.throwIfAborted()
  await storeImages(ctx, input.importId, images, s)
  await removeImportFiles(ctx.config, input.importId)
}

async function changed(tx: Tx, change: RunChange<ImportInput>): Promise<void> {
  const { importId } = change.input
  if (change.what === 'step' && change.step.state === 'running') {
    const phase = change.step.id as 'assemble' | 'inspect'
    const done = phase === 'inspect' ? 0.5 : 0
    await updateLiveImport(tx, importId, { phase, progress: done + change.step.progress / 2 })
  }
  if (change.what !== 'run') return
  if (change.state === 'canceled') await updateLiveImport(tx, importId, { status: 'CANCELED' })
  if (change.state !== 'failed') return
  const code = (change.error?.detail as { code?: string } | undefined)?.code
  const error: ImportError = code
    ? { code, message: change.error!.message }
    : { code: 'platform', message: 'Something failed on our side; send the archive again.' }
  const failed = await updateLiveImport(tx, importId, { status: 'FAILED', error })
  if (failed) await tellStarter(tx, change.runId, failed, error.message)
}

async function tellStarter(
  tx: Tx,
  runId: string,
  { id, tenantId, filename, repository }: ImportRow,
  body: string,
): Promise<void> {
  const { actorId } = await getRun(tx, runId)
  if (!actorId) return
  await notify(tx, {
    tenantId,
    to: { userIds: [actorId] },
    group: importGroup.name,
    title: `The import of ${filename ?? repository ?? 'an image archive'} failed`,
    body,
    link: `/registry/imports/${id}`,
    dedupeKey: `registry-import:${id}`,
  })
}

/** Of those that ended a record alone is left: their files went with their end. */
export const importRetention: RetentionRule = {
  kind: 'imports',
  what: 'finished imports',
  erase: (ctx, { tenantId, before }) =>
    transaction(ctx, (tx) => (tenantId ? deleteEndedImports(tx, tenantId, before, 1000) : Promise.resolve(0))),
}
