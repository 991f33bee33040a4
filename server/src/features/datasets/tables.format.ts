import { buffer } from 'node:stream/consumers'
import { setImmediate as breathe } from 'node:timers/promises'
import type { DatasetFormat, FormatContext, FormatFile, FormatResult } from './formats/dataset-format.ts'
import { ColumnProfile } from './tables/column-profile.ts'
import { type ReadRange, readParquetFooter } from './tables/parquet-footer.ts'
import { readParquetColumn } from './tables/parquet-pages.ts'
import { dtypeOf } from './tables/parquet-values.ts'
import { hasRows, readRows } from './tables/table-rows.ts'
import type { Variable } from './validation-report.ts'

const columnsMax = 5000
/** Between two looks at the signal. */
const rowsPerBreath = 10_000
/** Some ten minutes of work; runs make it possible to announce any number in a small file. */
const parquetValuesMax = 1_000_000_000

/** Tables: CSV, TSV, JSON lines and Parquet files with the same columns, however many files they are spread over. */
export const tablesFormat: DatasetFormat = {
  name: 'tables',

  recognise(survey) {
    const tables = ['csv', 'tsv', 'jsonl', 'ndjson', 'parquet'].some((extension) => survey.examples.has(extension))
    return tables && survey.images === 0
  },

  async read(context): Promise<FormatResult> {
    const table = new TableProfile()
    let done = 0
    for await (const page of context.pages(['tabular'])) {
      for (const file of page) {
        try {
          if (hasRows(file.path)) await readTable(context, file, table)
          else await readParquet(context, file, table)
        } catch (error) {
          if (!(error instanceof SyntaxError)) throw error
          context.finding({ code: 'unreadable_table', message: error.message, fileId: file.id, path: file.path })
        }
      }
      done += page.length
      context.progress(done / context.survey.files, `${table.rows} rows`)
    }
    const rowsPerClass = table.rowsPerClass()
    const classes = [...rowsPerClass.keys()].sort()
    return { classes, rowsPerClass, tasks: [], variables: table.variables(), rows: table.rows }
  },
}

async function readTable(context: FormatContext, file: FormatFile, table: TableProfile): Promise<void> {
  let rows = 0
  for await (const row of readRows(file.path, await context.open(file))) {
    if ('fault' in row)
      context.finding({
        code: 'unreadable_table',
        message: row.fault,
        fileId: file.id,
        path: file.path,
        line: row.line,
      })
    else table.addRow(row.values)
    if (++rows % rowsPerBreath === 0) context.signal.throwIfAborted()
  }
}

/** Column by column, all of it: damage anywhere shows, and nothing has to be believed. */
async function readParquet(context: FormatContext, file: FormatFile, table: TableProfile): Promise<void> {
  const readRange: ReadRange = async (start, end) => buffer(await context.open(file, { start, end: end - 1 }))
  const { rows, columns } = await readParquetFooter(file.size, readRange)
  if (rows * columns.length > parquetValuesMax) throw new SyntaxError('the Parquet file has too many values')
  for (const column of columns) {
    let read = 0
    for await (const values of readParquetColumn(column, readRange)) {
      table.addValues(column.name, dtypeOf(column), values)
      read += values.length
      context.signal.throwIfAborted()
      await breathe()
    }
    if (read !== rows) throw new SyntaxError(`column ${JSON.stringify(column.name)} has ${read} of ${rows} rows`)
  }
  table.rows += rows
}

class TableProfile {
  rows = 0
  #columns = new Map<string, ColumnProfile>()

  addRow(values: Record<string, unknown>): void {
    for (const [name, value] of Object.entries(values)) this.#column(name)?.add(value)
    this.rows++
  }

  /** Values of a column whose type is known. */
  addValues(name: string, dtype: string, values: unknown[]): void {
    const column = this.#column(name, dtype)
    for (const value of values) column?.add(value)
  }

  #column(name: string, dtype: string | null = null): ColumnProfile | null {
    const known = this.#columns.get(name)
    if (known || this.#columns.size >= columnsMax) return known ?? null
    const column = new ColumnProfile(name, dtype)
    this.#columns.set(name, column)
    return column
  }

  variables(): Variable[] {
    return [...this.#columns.values()].map((column) => column.variable(this.rows))
  }

  /** Of the column that is named like a label, where its values are few. */
  rowsPerClass(): Map<string, number> {
    for (const column of this.#columns.values()) {
      const { role, dtype } = column.variable(this.rows)
      const counts = column.counts()
      if (role === 'label' && counts && ['category', 'text', 'boolean', 'integer'].includes(dtype)) return counts
    }
    return new Map()
  }
}
