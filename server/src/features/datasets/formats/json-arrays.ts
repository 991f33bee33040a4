/** What is unfinished is copied with every piece that comes: an annotation that goes on for ever must not. */
const maxItemChars = 16 * 1024 * 1024
const [quote, backslash, open, close, openList, closeList, comma, colon, newline] = [...'"\\{}[],:\n'].map((c) =>
  c.charCodeAt(0),
) as [number, number, number, number, number, number, number, number, number]

export interface JsonItem {
  /** The key of the top-level array it stands in. */
  key: string
  value: unknown
  /** Line of its start, from 1. */
  line: number
}

/**
 * Reads the items of the arrays of one top-level object, such as `{"images": [...], "annotations": [...]}`, one at a
 * time and however long the document is. Throws a `SyntaxError` with the line for what is no such JSON.
 */
export async function* readJsonArrays(
  content: AsyncIterable<Uint8Array>,
  keys: ReadonlySet<string>,
): AsyncGenerator<JsonItem> {
  const scanner = new ArrayScanner(keys)
  const decoder = new TextDecoder('utf-8', { fatal: true })
  for await (const bytes of content) yield* scanner.push(decoder.decode(bytes, { stream: true }))
  yield* scanner.push(decoder.decode())
  scanner.end()
}

/** Follows brackets and strings only; what is between them is left to `JSON.parse`. */
class ArrayScanner {
  #keys: ReadonlySet<string>
  #text = ''
  #at = 0
  #depth = 0
  #line = 1
  #inString = false
  #escaped = false
  #stringStart = -1
  /** The last string at depth 1: a key when a colon follows. */
  #lastString = ''
  #key = ''
  #itemStart = -1
  #itemLine = 1
  #done = false

  constructor(keys: ReadonlySet<string>) {
    this.#keys = keys
  }

  *push(more: string): Generator<JsonItem> {
    this.#text += more
    for (; this.#at < this.#text.length; this.#at++) {
      const code = this.#text.charCodeAt(this.#at)
      if (code === newline) this.#line++
      if (this.#inString) {
        this.#string(code)
        continue
      }
      const item = this.#structure(code)
      if (item) yield item
    }
    this.#forget()
  }

  end(): void {
    if (!this.#done) throw new SyntaxError(`the JSON ends early, in line ${this.#line}`)
  }

  #string(code: number): void {
    if (this.#escaped) this.#escaped = false
    else if (code === backslash) this.#escaped = true
    else if (code === quote) {
      this.#inString = false
      if (this.#depth === 1) this.#lastString = this.#text.slice(this.#stringStart + 1, this.#at)
    }
  }

  #structure(code: number): JsonItem | null {
    if (this.#done && code > 32) throw new SyntaxError(`something follows the JSON, in line ${this.#line}`)
    const wanted = this.#depth === 2 && this.#key !== ''
    if (wanted && this.#itemStart < 0 && code > 32 && code !== comma && code !== closeList) {
      this.#itemStart = this.#at
      this.#itemLine = this.#line
    }
    if (code === quote) {
      this.#inString = true
      this.#stringStart = this.#at
    } else if (code === open || code === openList) this.#enter(code)
    else if (code === close || code === closeList) return this.#leave(code)
    else if (code === comma && wanted) return this.#item()
    else if (this.#depth === 0 && code > 32 && code !== 0xfeff)
      throw new SyntaxError(`the JSON is no object, in line ${this.#line}`)
    else if (code === colon && this.#depth === 1) this.#key = ''
    return null
  }

  #enter(code: number): void {
    if (this.#depth === 0 && code !== open) throw new SyntaxError('the JSON is no object')
    this.#depth++
    if (this.#depth === 2) this.#key = code === openList && this.#keys.has(this.#lastString) ? this.#lastString : ''
  }

  #leave(code: number): JsonItem | null {
    const item = code === closeList && this.#depth === 2 && this.#key !== '' ? this.#item() : null
    this.#depth--
    if (this.#depth < 0) throw new SyntaxError(`a bracket closes nothing, in line ${this.#line}`)
    if (this.#depth === 1) this.#key = ''
    if (this.#depth === 0) this.#done = true
    return item
  }

  #item(): JsonItem | null {
    if (this.#itemStart < 0) return null
    const text = this.#text.slice(this.#itemStart, this.#at)
    this.#itemStart = -1
    try {
      return { key: this.#key, value: JSON.parse(text), line: this.#itemLine }
    } catch {
      throw new SyntaxError(`the JSON can not be read, in line ${this.#itemLine}`)
    }
  }

  /** Keeps only what an item or a key still needs. */
  #forget(): void {
    const from =
      this.#itemStart >= 0 ? this.#itemStart : this.#inString && this.#depth === 1 ? this.#stringStart : this.#at
    if (this.#at - from > maxItemChars) throw new SyntaxError(`an item is too long, in line ${this.#itemLine}`)
    this.#text = this.#text.slice(from)
    this.#at -= from
    this.#stringStart -= from
    if (this.#itemStart >= 0) this.#itemStart = 0
  }
}
