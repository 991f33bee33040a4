import { buffer } from 'node:stream/consumers'
import type { TenantCtx } from '../../platform/context.ts'
import { read } from '../../platform/transaction.ts'
import { listSampleFiles } from './dataset-files.store.ts'
import { getDataset } from './datasets.service.ts'
import { type ReadRange, readParquetFooter } from './tables/parquet-footer.ts'
import { readParquetColumn } from './tables/parquet-pages.ts'
import { hasRows, readRows } from './tables/table-rows.ts'

type Row = Record<string, unknown>
type Table = { path: string; digest: string; size: number }

/** Longer cells are cut. */
const cellCharsMax = 2000
/** What lies deeper in a cell is left out. */
const cellDepthMax = 32

/** The first rows of the first table, or the first images with what they stand for. @source contract DS-07 */
export async function sampleDataset(ctx: TenantCtx, datasetId: string, limit: number) {
  const dataset = await getDataset(ctx, datasetId)
  const kind = dataset.format === 'tables' ? 'tabular' : 'image'
  const files = await read(ctx, (tx) => listSampleFiles(tx, ctx.tenant.id, datasetId, kind, limit))
  const table = kind === 'tabular' ? files[0] : undefined
  const items = table
    ? (await firstRows(ctx, table, limit)).map(shortened)
    : files.map(({ id, path, label, split, width, height }) => ({ file_id: id, path, label, split, width, height }))
  const columns = [...new Set(items.flatMap((item) => Object.keys(item)))]
  return { columns, items, total: items.length }
}

async function firstRows(ctx: TenantCtx, table: Table, limit: number) {
  try {
    return hasRows(table.path) ? await readFirst(ctx, table, limit) : await readFirstOfColumns(ctx, table, limit)
  } catch (error) {
    // The report says what is wrong with it.
    if (error instanceof SyntaxError) return []
    throw error
  }
}

async function readFirst(ctx: TenantCtx, table: Table, limit: number): Promise<Row[]> {
  const content = await ctx.blobs.open(table.digest)
  const rows: Row[] = []
  try {
    for await (const row of readRows(table.path, content)) {
      if (rows.length >= limit) break
      if ('values' in row) rows.push(row.values)
    }
  } catch (error) {
    // A table that can't be read on shows what came before.
    if (!(error instanceof SyntaxError)) throw error
  } finally {
    content.destroy()
  }
  return rows
}

async function readFirstOfColumns(ctx: TenantCtx, table: Table, limit: number): Promise<Row[]> {
  const readRange: ReadRange = async (start, end) => buffer(await ctx.blobs.open(table.digest, { start, end: end - 1 }))
  const file = await readParquetFooter(table.size, readRange)
  const rows: Row[] = Array.from({ length: Math.min(limit, file.rows) }, () => ({}))
  for (const column of file.columns) {
    let index = 0
    for await (const values of readParquetColumn(column, readRange)) {
      for (const value of values.slice(0, rows.length - index)) rows[index++]![column.name] = value
      if (index >= rows.length) break
    }
  }
  return rows
}

/** A cell is shown, not handed over: the file itself is there for that. */
function shortened(row: Row): Row {
  const short = (value: unknown) => {
    const text = typeof value === 'object' && value !== null ? JSON.stringify(value) : value
    return typeof text === 'string' && text.length > cellCharsMax ? shownText(`${text.slice(0, cellCharsMax)}…`) : value
  }
  const cells = Object.entries(row).map(([name, value]) => [shownText(name), short(shownValue(value, 0))])
  return Object.fromEntries(cells)
}

/** Whatever a file holds, as text that every client can take. */
const shownText = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd')

function shownValue(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return shownText(value)
  if (typeof value !== 'object' || value === null) return value
  if (depth === cellDepthMax) return '…'
  if (Array.isArray(value)) return value.map((one) => shownValue(one, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [shownText(name), shownValue(one, depth + 1)]))
}
