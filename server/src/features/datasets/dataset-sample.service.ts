import type { TenantCtx } from '../../platform/context.ts'
import { read } from '../../platform/transaction.ts'
import { listSampleFiles } from './dataset-files.store.ts'
import { getDataset } from './datasets.service.ts'

/** The first images with what they stand for. @source contract DS-07 */
export async function sampleDataset(ctx: TenantCtx, datasetId: string, limit: number) {
  await getDataset(ctx, datasetId)
  const files = await read(ctx, (tx) => listSampleFiles(tx, ctx.tenant.id, datasetId, limit))
  const items = files.map(({ id, path, label, split, width, height }) => ({
    file_id: id,
    path,
    label,
    split,
    width,
    height,
  }))
  return { columns: ['file_id', 'path', 'label', 'split', 'width', 'height'], items, total: items.length }
}
