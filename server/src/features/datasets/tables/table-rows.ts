import { extensionOf } from '../file-kinds.ts'
import { delimiterOf, readDelimited } from './delimited-rows.ts'

/** A row of a table, by column, or why there is none. */
export type TableRow = { line: number; values: Record<string, unknown> } | { line: number; fault: string }

const lineCharsMax = 16 * 1024 * 1024

/** Whether the rows of such a file can be read one by one. */
export const hasRows = (path: string): boolean => ['csv', 'tsv', 'jsonl', 'ndjson'].includes(extensionOf(path))

/** The rows of a delimited or JSON-lines file. Throws a `SyntaxError` when it can't be read on. */
export async function* readRows(path: string, content: AsyncIterable<Uint8Array>): AsyncGenerator<TableRow> {
  const extension = extensionOf(path)
  if (extension === 'jsonl' || extension === 'ndjson') yield* readJsonLines(content)
  else yield* readNamed(content, extension === 'tsv' ? '\t' : null)
}

async function* readNamed(content: AsyncIterable<Uint8Array>, known: string | null): AsyncGenerator<TableRow> {
  const { start, whole } = await peeked(content)
  const delimiter = known ?? delimiterOf(start)
  let names: string[] | null = null
  for await (const { cells, line } of readDelimited(whole, delimiter)) {
    if (!names) names = unique(cells)
    else if (cells.length !== names.length)
      yield { line, fault: `The row has ${cells.length} cells, the header has ${names.length}.` }
    else yield { line, values: Object.fromEntries(names.map((name, index) => [name, cells[index]])) }
  }
}

/** Names of columns; what is empty or comes again is numbered. */
function unique(cells: string[]): string[] {
  const seen = new Set<string>()
  return cells.map((cell, index) => {
    const name = cell.trim().replace(/^\uFEFF/, '') || `column_${index + 1}`
    const free = seen.has(name) ? `${name}_${index + 1}` : name
    seen.add(free)
    return free
  })
}

async function peeked(content: AsyncIterable<Uint8Array>) {
  const source = content[Symbol.asyncIterator]()
  const first = await source.next()
  async function* whole(): AsyncGenerator<Uint8Array> {
    if (first.done) return
    yield first.value
    for (let next = await source.next(); !next.done; next = await source.next()) yield next.value
  }
  return { start: first.done ? '' : Buffer.from(first.value).toString('utf8'), whole: whole() }
}

async function* readJsonLines(content: AsyncIterable<Uint8Array>): AsyncGenerator<TableRow> {
  const decoder = new TextDecoder('utf-8')
  let rest = ''
  let line = 0
  for await (const bytes of content) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
    rest = lines.pop()!
    if (rest.length > lineCharsMax) throw new SyntaxError(`line ${line + 1} is too long`)
    for (const text of lines) {
      const row = jsonRow(text, ++line)
      if (row) yield row
    }
  }
  const row = jsonRow(rest + decoder.decode(), ++line)
  if (row) yield row
}

function jsonRow(text: string, line: number): TableRow | null {
  if (text.trim() === '') return null
  try {
    const values = JSON.parse(text)
    if (typeof values === 'object' && values !== null && !Array.isArray(values)) return { line, values }
    return { line, fault: 'The line is no JSON object.' }
  } catch {
    return { line, fault: 'The line is not JSON.' }
  }
}
