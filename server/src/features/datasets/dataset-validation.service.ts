import { setTimeout as sleep } from 'node:timers/promises'
import { audited } from '../../platform/audit.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { conflict } from '../../platform/errors.ts'
import { transaction } from '../../platform/transaction.ts'
import { requireDataset } from './dataset-access.ts'
import { noteFilesChanged } from './dataset-changes.ts'
import { resetInspections } from './dataset-validation.store.ts'
import { getDataset } from './datasets.service.ts'
import { readFacts } from './datasets.store.ts'

/** A request waits at most this long for its validation; a long one is followed by reading the dataset. */
const waitMs = 20_000

/**
 * Validates again, with every file read anew when `deep`; answers the dataset as soon as the report is there, or after
 * some seconds as it stands. @source contract DS-19, DS-20
 */
export async function revalidate(ctx: TenantCtx, datasetId: string, deep: boolean, signal: AbortSignal) {
  audited(ctx, datasetId)
  const wanted = await transaction(ctx, async (tx) => {
    const dataset = await requireDataset(tx, ctx, datasetId)
    if (dataset.frozenAt) throw conflict('A frozen dataset keeps its report.', { detail: { reason: 'dataset_frozen' } })
    const facts = await readFacts(tx, dataset)
    if (facts.syncing) throw conflict('A sync is running on this dataset.', { detail: { reason: 'sync_running' } })
    if (deep) await resetInspections(tx, { tenantId: ctx.tenant.id, datasetId })
    await noteFilesChanged(tx, ctx, datasetId)
    return dataset.revision + 1
  })
  const end = Date.now() + waitMs
  for (;;) {
    const dataset = await getDataset(ctx, datasetId)
    if (dataset.validatedRevision >= wanted && dataset.validationStatus !== 'RUNNING') return dataset
    if (Date.now() > end || signal.aborted) return dataset
    await sleep(100)
  }
}
