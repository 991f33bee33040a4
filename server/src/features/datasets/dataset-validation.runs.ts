import { buffer } from 'node:stream/consumers'
import { systemClock } from '../../platform/clock.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { defineRun, type RunChange, type StepRun, step } from '../../platform/runs/define-run.ts'
import { getRun, insertRun } from '../../platform/runs/runs.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { noDataset } from './dataset-access.ts'
import { analyseDataset } from './dataset-analysis.ts'
import {
  acceptOtherFiles,
  countPendingImages,
  listPendingImages,
  saveFailure,
  saveInspections,
  saveOutcome,
} from './dataset-validation.store.ts'
import { type DatasetRow, findDataset, lockDataset, settleDataset, updateDataset } from './datasets.store.ts'
import { type Inspection, inspectImage } from './image-inspection.ts'
import { encodedImages } from './memory-budget.ts'
import { tellValidated } from './validation-notice.ts'

export interface ValidationInput {
  datasetId: string
}

const imagesPerBatch = 256
const imagesAtOnce = 4
/** Larger files are not decoded: no image, as far as we are concerned. */
export const imageBytesMax = 512 * 1024 * 1024

/**
 * Looks into every file that is new and reads the dataset as a whole. At most one runs per dataset; files that change
 * meanwhile are looked at by the next one, which starts when this one ends.
 */
export const validateDataset = defineRun<ValidationInput>({
  kind: 'datasets.validate',
  maxConcurrent: 2,
  steps: [
    step('inspect', 'Decode every new image', inspectImages),
    step('analyse', 'Read annotations and compare files', analyse),
  ],
  changed,
})

const targetOf = (s: StepRun<ValidationInput>) => {
  const ctx = s.ctx as TenantCtx
  return { ctx, target: { tenantId: ctx.tenant.id, datasetId: s.input.datasetId } }
}

async function inspectImages(s: StepRun<ValidationInput>): Promise<{ inspected: number }> {
  const { ctx, target } = targetOf(s)
  const total = await transaction(ctx, async (tx) => {
    await acceptOtherFiles(tx, target)
    return countPendingImages(tx, target)
  })
  let inspected = 0
  for (;;) {
    s.signal.throwIfAborted()
    const batch = await read(ctx, (tx) => listPendingImages(tx, target, imagesPerBatch))
    if (batch.length === 0) return { inspected }
    const found: (Inspection & { id: string; digest: string })[] = []
    const rest = batch.values()
    const lane = async () => {
      for (const { id, path, digest, size } of rest) {
        s.signal.throwIfAborted()
        found.push({ id, digest, ...(await inspectBlob(ctx, path, digest, size)) })
      }
    }
    await Promise.all(Array.from({ length: imagesAtOnce }, lane))
    await transaction(ctx, (tx) => saveInspections(tx, target, found))
    inspected += batch.length
    s.progress(inspected / Math.max(total, inspected), `${inspected} of ${Math.max(total, inspected)} images`)
  }
}

/** An image of the blob store, looked into. */
export async function inspectBlob(ctx: TenantCtx, path: string, digest: string, size: number): Promise<Inspection> {
  if (size > imageBytesMax) return inspectImage(path, Buffer.alloc(0))
  return encodedImages(size, async () => inspectImage(path, await buffer(await ctx.blobs.open(digest))))
}

async function analyse(s: StepRun<ValidationInput>): Promise<{ status: string }> {
  const { ctx, target } = targetOf(s)
  const dataset = await read(ctx, (tx) => findDataset(tx, target.tenantId, target.datasetId))
  if (!dataset) throw noDataset()
  const outcome = await analyseDataset(ctx, target, dataset.revision, s.signal, (fraction, message) =>
    s.progress(fraction, message),
  )
  await transaction(ctx, async (tx) => {
    await lockDataset(tx, target.tenantId, target.datasetId)
    await saveOutcome(tx, target, outcome)
    await settleDataset(tx, target.tenantId, target.datasetId)
  })
  s.log(`${outcome.status}: ${outcome.report.errors} errors, ${outcome.report.warnings} warnings`)
  return { status: outcome.status }
}

async function changed(tx: Tx, change: RunChange<ValidationInput>): Promise<void> {
  if (change.what !== 'run') return
  const tenantId = change.tenantId!
  const { datasetId } = change.input
  const dataset = await lockDataset(tx, tenantId, datasetId)
  if (!dataset) return
  if (change.state === 'running') await updateDataset(tx, tenantId, datasetId, { validationStatus: 'RUNNING' })
  if (change.state === 'failed' || change.state === 'canceled')
    await saveFailure(tx, { tenantId, datasetId }, dataset, change.error?.message ?? 'The validation was stopped.')
  const outdated = change.state === 'succeeded' && dataset.revision > dataset.validatedRevision
  // A sync validates once, at its end.
  if (outdated && !dataset.syncRunId) await queueValidation(tx, tenantId, datasetId, await starterOf(tx, change.runId))
  await settleDataset(tx, tenantId, datasetId)
  if (!outdated && (change.state === 'succeeded' || change.state === 'failed')) await tell(tx, change, dataset)
}

async function starterOf(tx: Tx, runId: string): Promise<{ userId: string; email: string } | null> {
  const { actorId, actorEmail } = await getRun(tx, runId)
  return actorId && actorEmail ? { userId: actorId, email: actorEmail } : null
}

async function tell(tx: Tx, change: RunChange<ValidationInput> & { what: 'run' }, dataset: DatasetRow): Promise<void> {
  const starter = await starterOf(tx, change.runId)
  if (!starter) return
  const isFaulty = change.state === 'failed' || dataset.validationStatus === 'FAILED'
  const fault = isFaulty ? (change.error?.message ?? 'The report of the validation names what is wrong.') : null
  const { tenantId, id: datasetId, name } = dataset
  await tellValidated(tx, starter.userId, { tenantId, datasetId, name, fault }, systemClock.now())
}

/**
 * Makes sure that a validation comes after this transaction: starts one, unless one is under way, which then sees that
 * the files changed and starts the next. The caller has the dataset locked. Returns the id of the new run, or null.
 */
export function queueValidation(
  tx: Tx,
  tenantId: string,
  datasetId: string,
  actor: { userId: string; email: string } | null = null,
): Promise<string | null> {
  const input: ValidationInput = { datasetId }
  return insertRun(tx, validateDataset, { tenantId, input, subject: `dataset:${tenantId}:${datasetId}`, actor })
}
