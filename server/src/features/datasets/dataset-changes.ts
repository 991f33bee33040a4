import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { queueValidation } from './dataset-validation.runs.ts'
import { bumpRevision, settleDataset } from './datasets.store.ts'

/**
 * To be called by whoever changed files of a dataset, in the same transaction and with the dataset locked: the report
 * no longer fits, so a validation follows. `validate: false` leaves that to the end of a longer change.
 */
export async function noteFilesChanged(
  tx: Tx,
  ctx: TenantCtx,
  datasetId: string,
  { validate = true }: { validate?: boolean } = {},
): Promise<void> {
  await bumpRevision(tx, ctx.tenant.id, datasetId)
  if (validate) await queueValidation(tx, ctx.tenant.id, datasetId, ctx.actor)
  await settleDataset(tx, ctx.tenant.id, datasetId)
}
