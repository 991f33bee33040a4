import { buffer } from 'node:stream/consumers'
import type { DatasetFormat, FormatContext, FormatFile, FormatResult } from './formats/dataset-format.ts'
import { ColumnProfile } from './tables/column-profile.ts'
import { type ParquetSummary, readParquetFooter } from './tables/parquet-footer.ts'
import { hasRows, readRows } from './tables/table-rows.ts'
import type { Variable } from './validation-report.ts'

const columnsMax = 5000
/** Between two looks at the signal. */
const rowsPerBreath = 10_000

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
          else table.addSummary(await readSummary(context, file))
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

function readSummary(context: FormatContext, file: FormatFile): Promise<ParquetSummary> {
  return readParquetFooter(file.size, async (start, end) => buffer(await context.open(file, { start, end: end - 1 })))
}

class TableProfile {
  rows = 0
  #columns = new Map<string, ColumnProfile>()
  #summaries: ParquetSummary[] = []

  addRow(values: Record<string, unknown>): void {
    for (const [name, value] of Object.entries(values)) {
      let column = this.#columns.get(name)
      if (!column) {
        if (this.#columns.size >= columnsMax) continue
        column = new ColumnProfile(name)
        column.pad(this.rows)
        this.#columns.set(name, column)
      }
      column.add(typeof value === 'object' && value !== null ? JSON.stringify(value) : value)
    }
    this.rows++
  }

  addSummary(summary: ParquetSummary): void {
    this.#summaries.push(summary)
    this.rows += summary.rows
  }

  variables(): Variable[] {
    const own = [...this.#columns.values()].map((column) => {
      column.pad(this.rows - this.#summaries.reduce((sum, { rows }) => sum + rows, 0))
      return column.variable()
    })
    return own.length > 0 ? own : mergeSummaries(this.#summaries)
  }

  /** Of the column that is named like a label. */
  rowsPerClass(): Map<string, number> {
    for (const column of this.#columns.values()) {
      const { role, categories } = column.variable()
      if (role === 'label' && categories) return column.counts() ?? new Map()
    }
    return new Map()
  }
}

/** Columns of several files: the least of the least, and missing values by the rows they are missing in. */
function mergeSummaries(summaries: ParquetSummary[]): Variable[] {
  const merged = new Map<string, Variable & { rows: number }>()
  for (const { rows, variables } of summaries) {
    for (const variable of variables) {
      const before = merged.get(variable.name)
      if (!before) merged.set(variable.name, { ...variable, rows })
      else {
        const missing = (before.missing_rate ?? 0) * before.rows + (variable.missing_rate ?? 0) * rows
        before.rows += rows
        before.missing_rate = before.rows > 0 ? missing / before.rows : 0
        before.min = least(before.min, variable.min, Math.min)
        before.max = least(before.max, variable.max, Math.max)
      }
    }
  }
  return [...merged.values()].map(({ rows: _rows, ...variable }) => variable)
}

const least = (a: number | null | undefined, b: number | null | undefined, pick: (a: number, b: number) => number) =>
  a === null || a === undefined ? (b ?? null) : b === null || b === undefined ? a : pick(a, b)
