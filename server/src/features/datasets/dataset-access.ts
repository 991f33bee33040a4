import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict, notFound } from '../../platform/errors.ts'
import { findSyncOf } from './dataset-sync.store.ts'
import { listUsage } from './dataset-training.store.ts'
import { type DatasetRow, findDataset, lockDataset } from './datasets.store.ts'

/** Who may change what, as every use case of a dataset asks it. */

export const noDataset = () => notFound('There is no such dataset.')

/** The dataset, locked; throws `not_found`. */
export async function requireDataset(tx: Tx, ctx: TenantCtx, id: string): Promise<DatasetRow> {
  const dataset = await lockDataset(tx, ctx.tenant.id, id)
  if (!dataset) throw noDataset()
  return dataset
}

/** The dataset, locked, when its files may be changed by an upload. @source contract B5.1 */
export async function requireWritable(tx: Tx, ctx: TenantCtx, id: string): Promise<DatasetRow> {
  return writable(await requireDataset(tx, ctx, id))
}

/** The same at a look, before anything is sent; what is sent is to be registered under the lock. */
export async function checkWritable(tx: Tx, ctx: TenantCtx, id: string): Promise<void> {
  const dataset = await findDataset(tx, ctx.tenant.id, id)
  if (!dataset) throw noDataset()
  writable(dataset)
}

function writable(dataset: DatasetRow): DatasetRow {
  if (dataset.frozenAt)
    throw conflict('The dataset is frozen: make a new version of it.', { detail: { reason: 'dataset_frozen' } })
  if (dataset.syncRunId) throw syncRunning()
  return dataset
}

const syncRunning = () => conflict('A sync is running on this dataset.', { detail: { reason: 'sync_running' } })

/** Throws `conflict` while a sync runs; a missing dataset passes. @source contract B5.1 */
export async function requireUnsynced(tx: Tx, ctx: TenantCtx, id: string): Promise<void> {
  if (await findSyncOf(tx, ctx.tenant.id, id)) throw syncRunning()
}

/** @source contract B5.8 */
export async function requireDeletable(
  tx: Tx,
  ctx: TenantCtx,
  dataset: Pick<DatasetRow, 'id' | 'frozenAt'>,
  force: boolean,
) {
  const usage = await listUsage(tx, ctx.tenant.id, dataset.id)
  const names = (state: string) => usage.filter((use) => use.state === state).map((use) => use.experimentName)
  const running = names('running')
  if (running.length > 0)
    throw conflict('A running training uses this dataset.', { detail: { reason: 'in_use', experiments: running } })
  if (force) return
  if (dataset.frozenAt)
    throw conflict('The dataset is frozen; say force=true to delete it all the same.', {
      detail: { reason: 'dataset_frozen' },
    })
  const ended = names('ended')
  if (ended.length > 0)
    throw conflict('Finished trainings used this dataset; say force=true to delete it all the same.', {
      detail: { reason: 'used', experiments: ended },
    })
}
