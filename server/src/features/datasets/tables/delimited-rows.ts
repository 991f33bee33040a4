/** A row of a delimited file and the line it begins in, from 1. */
export interface DelimitedRow {
  cells: string[]
  line: number
}

const rowCharsMax = 16 * 1024 * 1024

/** The most frequent of comma, semicolon, tab and bar in the first line, outside quotes. */
export function delimiterOf(start: string): string {
  const line = start.replace(/"(?:[^"]|"")*"/g, '').split(/\r?\n/, 1)[0]!
  const counts = [',', ';', '\t', '|'].map((delimiter) => [delimiter, line.split(delimiter).length] as const)
  return counts.reduce((best, next) => (next[1] > best[1] ? next : best))[0]
}

/**
 * Rows of a delimited text of any length, quoted cells with line breaks included. Throws a `SyntaxError` with the line
 * for a quote that is never closed. @source RFC 4180
 */
export async function* readDelimited(
  content: AsyncIterable<Uint8Array>,
  delimiter: string,
): AsyncGenerator<DelimitedRow> {
  const decoder = new TextDecoder('utf-8')
  const parser = new RowParser(delimiter)
  for await (const bytes of content) yield* parser.push(decoder.decode(bytes, { stream: true }))
  yield* parser.push(decoder.decode())
  yield* parser.end()
}

class RowParser {
  #delimiter: string
  #cells: string[] = []
  #cell = ''
  #quoted = false
  /** A quote inside a quoted cell: the end, or the first half of a doubled one. */
  #quotePending = false
  #line = 1
  #startLine = 1
  #size = 0

  constructor(delimiter: string) {
    this.#delimiter = delimiter
  }

  *push(text: string): Generator<DelimitedRow> {
    let from = 0
    for (let at = 0; at < text.length; at++) {
      const char = text[at]!
      if (this.#quoted && !this.#quotePending) {
        if (char === '\n') this.#line++
        if (char !== '"') continue
        this.#take(text.slice(from, at))
        this.#quotePending = true
        from = at + 1
        continue
      }
      if (char === '"') {
        // Doubled inside quotes: the second is text. At the start of a cell: a quoted one.
        if (this.#quotePending) {
          this.#quotePending = false
          from = at
        } else if (this.#cell === '' && at === from) {
          this.#quoted = true
          from = at + 1
        }
        continue
      }
      if (char !== this.#delimiter && char !== '\n') continue
      this.#take(text.slice(from, at))
      from = at + 1
      const row = this.#endCell(char === '\n')
      if (row) yield row
    }
    this.#take(text.slice(from))
  }

  *end(): Generator<DelimitedRow> {
    if (this.#quoted && !this.#quotePending)
      throw new SyntaxError(`a quote is not closed, from line ${this.#startLine} on`)
    if (this.#cell === '' && this.#cells.length === 0) return
    const row = this.#endCell(true)
    if (row) yield row
  }

  #take(text: string): void {
    this.#cell += text
    this.#size += text.length
    if (this.#size > rowCharsMax) throw new SyntaxError(`a row is too long, from line ${this.#startLine} on`)
  }

  #endCell(rowEnds: boolean): DelimitedRow | null {
    this.#cells.push(rowEnds ? this.#cell.replace(/\r$/, '') : this.#cell)
    this.#cell = ''
    this.#quoted = false
    this.#quotePending = false
    if (!rowEnds) return null
    const row = { cells: this.#cells, line: this.#startLine }
    this.#cells = []
    this.#size = 0
    this.#startLine = ++this.#line
    // An empty line is no row.
    return row.cells.length === 1 && row.cells[0] === '' ? null : row
  }
}
