import type { TenantCtx } from '../../platform/context.ts'
import { read } from '../../platform/transaction.ts'
import { listSampleFiles } from './dataset-files.store.ts'
import { getDataset } from './datasets.service.ts'
import { hasRows, readRows } from './tables/table-rows.ts'

/** The first rows of the first table, or the first images with what they stand for. @source contract DS-07 */
export async function sampleDataset(ctx: TenantCtx, datasetId: string, limit: number) {
  const dataset = await getDataset(ctx, datasetId)
  const kind = dataset.format === 'tables' ? 'tabular' : 'image'
  const files = await read(ctx, (tx) => listSampleFiles(tx, ctx.tenant.id, datasetId, kind, limit))
  const table = files.find(({ path }) => kind === 'tabular' && hasRows(path))
  const items = table
    ? await firstRows(ctx, table, limit)
    : files.map(({ id, path, label, split, width, height }) => ({ file_id: id, path, label, split, width, height }))
  const columns = [...new Set(items.flatMap((item) => Object.keys(item)))]
  return { columns, items, total: items.length }
}

async function firstRows(ctx: TenantCtx, table: { path: string; digest: string }, limit: number) {
  const content = await ctx.blobs.open(table.digest)
  const rows: Record<string, unknown>[] = []
  try {
    for await (const row of readRows(table.path, content)) {
      if (rows.length >= limit) break
      if ('values' in row) rows.push(row.values)
    }
  } catch (error) {
    // A table that can't be read on shows what came before; the report says the rest.
    if (!(error instanceof SyntaxError)) throw error
  } finally {
    content.destroy()
  }
  return rows
}
