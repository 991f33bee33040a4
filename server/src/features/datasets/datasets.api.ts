import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict } from '../../platform/errors.ts'
import { read } from '../../platform/transaction.ts'
import {
  deleteUsage,
  findTrainable,
  listSamples,
  listTrainable,
  type SampleRow,
  type TrainableRow,
  type Usage,
  upsertUsage,
} from './dataset-training.store.ts'
import { lockDataset } from './datasets.store.ts'

/** What other features may know of datasets. */

const samplesPerRead = 2000

/** A frozen dataset; `tasks` are the training tasks whose shape it has, `splits` counts samples per split. */
export type TrainableDataset = TrainableRow
/** One file of a dataset with what it stands for; `label` and `split` are null where the format gives none. */
export type DatasetSample = SampleRow

export const listTrainableDatasets = (ctx: TenantCtx): Promise<TrainableDataset[]> =>
  read(ctx, (tx) => listTrainable(tx, ctx.tenant.id))

/** Null when it is unknown or not FROZEN. */
export async function findTrainableDataset(ctx: TenantCtx, datasetId: string): Promise<TrainableDataset | null> {
  return (await read(ctx, (tx) => findTrainable(tx, ctx.tenant.id, datasetId))) ?? null
}

/** Every file in path order (by bytes); holds two thousand at a time, however many there are. */
export async function* readSamples(ctx: TenantCtx, datasetId: string): AsyncGenerator<DatasetSample> {
  let after = ''
  for (;;) {
    const rows = await read(ctx, (tx) => listSamples(tx, ctx.tenant.id, datasetId, after, samplesPerRead))
    yield* rows
    const last = rows.at(-1)
    if (!last || rows.length < samplesPerRead) return
    after = last.path
  }
}

/**
 * Says that a training uses a dataset, or no longer does; deleting the dataset depends on it. Throws a `conflict` when a
 * training is to begin and the dataset was deleted a moment ago. @source contract B5.8
 */
export async function noteDatasetUsage(tx: Tx, ctx: TenantCtx, usage: Usage): Promise<void> {
  if (usage.state === 'running' && !(await lockDataset(tx, ctx.tenant.id, usage.datasetId)))
    throw conflict('The dataset was deleted meanwhile.', { detail: { reason: 'dataset_deleted' } })
  await upsertUsage(tx, ctx.tenant.id, usage)
}

/** The training itself is gone. */
export const forgetDatasetUsage = (tx: Tx, ctx: TenantCtx, experimentId: string): Promise<void> =>
  deleteUsage(tx, ctx.tenant.id, experimentId)
