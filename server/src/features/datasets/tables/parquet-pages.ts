import { expandPage } from './parquet-codecs.ts'
import { plainValues, runs, type Stored, storedValues } from './parquet-encodings.ts'
import type { ColumnChunk, ParquetColumn, ReadRange } from './parquet-footer.ts'
import { shownValue } from './parquet-values.ts'
import { CompactReader, type Struct } from './thrift-compact.ts'

const pageBytesMax = 256 * 1024 * 1024
const dictionaryBytesMax = 64 * 1024 * 1024
const headerBytesMax = 1024 * 1024
const windowBytes = 1024 * 1024
const rowsPerBatch = 10_000

/**
 * The values of one column, row by row, a batch at a time: null where there is none, a list for a repeated column
 * (lists inside lists are shown as one). Holds a page and a dictionary. Throws a `SyntaxError` for damage and for
 * what is not supported.
 */
export async function* readParquetColumn(column: ParquetColumn, readRange: ReadRange): AsyncGenerator<unknown[]> {
  try {
    for (const chunk of column.chunks) yield* readChunk(column, chunk, readRange)
  } catch (error) {
    if (!isDamage(error)) throw error
    const reason = error instanceof SyntaxError ? error.message : 'its data is damaged'
    throw new SyntaxError(`column ${JSON.stringify(column.name)} can not be read: ${reason}`, { cause: error })
  }
}

/** Damage shows as a number out of range or as what a decompressor says of it, never as a system error. */
function isDamage(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return error instanceof SyntaxError || error instanceof RangeError || /^(ERR_|Z_|ZSTD_)/.test(code ?? '')
}

async function* readChunk(column: ParquetColumn, chunk: ColumnChunk, readRange: ReadRange): AsyncGenerator<unknown[]> {
  let dictionary: Stored[] | null = null
  let batch: unknown[] = []
  let seen = 0
  for await (const page of pagesOf(column, chunk, readRange)) {
    if (page.kind === 'dictionary') {
      dictionary = [...first(plainValues(page.bytes, column), page.count)]
      continue
    }
    seen += page.count
    if (seen > chunk.values) throw new RangeError('more values than announced')
    for (const { value, repeated } of entriesOf(page, column, dictionary)) {
      if (repeated) {
        const list = batch.at(-1)
        if (!Array.isArray(list)) throw new RangeError('a list goes on that never began')
        list.push(...(value as unknown[]))
      } else {
        // The last row stays behind: the next page may go on with it.
        if (batch.length > rowsPerBatch) {
          const last = batch.pop()
          yield batch
          batch = [last]
        }
        batch.push(value)
      }
    }
  }
  if (seen < chunk.values) throw new RangeError('fewer values than announced')
  if (batch.length > 0) yield batch
}

interface Entry {
  value: unknown
  /** Goes on with the list of the row before. */
  repeated: boolean
}

/** Puts levels and values together. @source parquet-format, "Nested Encoding" */
function* entriesOf(page: DataPage, column: ParquetColumn, dictionary: Stored[] | null): Generator<Entry> {
  const { definitionMax, repetitionMax, elementDefinition } = column
  const values = storedValues(page.bytes, page.encoding, column, dictionary)
  for (let index = 0; index < page.count; index++) {
    const repetition = repetitionMax > 0 ? level(page.repetitions) : 0
    const definition = definitionMax > 0 ? level(page.definitions) : 0
    let value: unknown = null
    if (definition === definitionMax) {
      const { value: stored, done } = values.next()
      if (done) throw new RangeError('values are missing')
      value = shownValue(stored, column)
    }
    if (repetitionMax === 0) yield { value, repeated: false }
    else if (definition < elementDefinition - 1) yield { value: null, repeated: false }
    else yield { value: definition < elementDefinition ? [] : [value], repeated: repetition > 0 }
  }
}

function level(levels: Iterator<number> | null): number {
  const next = levels?.next()
  if (!next || next.done) throw new RangeError('levels are missing')
  return next.value
}

function* first<T>(values: Iterable<T>, count: number): Generator<T> {
  let left = count
  for (const value of values) {
    if (left-- <= 0) return
    yield value
  }
}

interface DictionaryPage {
  kind: 'dictionary'
  count: number
  bytes: Buffer
}

interface DataPage {
  kind: 'data'
  count: number
  encoding: number
  bytes: Buffer
  repetitions: Iterator<number> | null
  definitions: Iterator<number> | null
}

/** PageHeader: 1 type (0 data, 2 dictionary, 3 data of version 2), 2 and 3 the expanded and the stored length. */
async function* pagesOf(
  column: ParquetColumn,
  chunk: ColumnChunk,
  readRange: ReadRange,
): AsyncGenerator<DictionaryPage | DataPage> {
  const read = windowed(readRange, chunk.end)
  for (let at = chunk.start; at < chunk.end; ) {
    const { header, length } = headerOf(await read(at, headerBytesMax))
    const [expanded, stored] = [Number(header.get(2)), Number(header.get(3))]
    if (!(expanded >= 0 && stored >= 0 && Math.max(expanded, stored) <= pageBytesMax))
      throw new RangeError('a page is too large')
    const body = await read(at + length, stored, true)
    if (body.length < stored) throw new RangeError('a page ends early')
    at += length + stored
    const type = header.get(1)
    if (type === 2) {
      const count = Number(inside(header, 7).get(1))
      if (expanded > dictionaryBytesMax) throw new RangeError('the dictionary is too large')
      yield { kind: 'dictionary', count, bytes: expandPage(chunk.codec, body, expanded) }
    } else if (type === 0) yield firstVersion(inside(header, 5), expandPage(chunk.codec, body, expanded), column)
    else if (type === 3) yield secondVersion(inside(header, 8), { codec: chunk.codec, body, expanded }, column)
  }
}

function inside(header: Struct, field: number): Struct {
  const part = header.get(field)
  if (!(part instanceof Map)) throw new RangeError('a page header lacks a part')
  return part
}

function headerOf(bytes: Buffer): { header: Struct; length: number } {
  const reader = new CompactReader(bytes)
  const header = reader.struct()
  return { header, length: reader.at }
}

/** Serves small reads from a window; what is large and wanted `whole` is read by itself. */
function windowed(readRange: ReadRange, fileEnd: number) {
  let from = 0
  let bytes: Buffer = Buffer.alloc(0)
  return async (at: number, length: number, whole = false): Promise<Buffer> => {
    const end = Math.min(at + length, fileEnd)
    const inside = at >= from && at < from + bytes.length
    if (inside && (end <= from + bytes.length || (!whole && from + bytes.length - at >= windowBytes / 4)))
      return bytes.subarray(at - from, end - from)
    if (end <= at) return Buffer.alloc(0)
    if (whole && length > windowBytes) return readRange(at, end)
    bytes = await readRange(at, Math.min(fileEnd, at + windowBytes))
    from = at
    return bytes.subarray(0, end - at)
  }
}

/** DataPageHeader: 1 num_values, 2 encoding. Levels come first, each with its length, where there can be any. */
function firstVersion(header: Struct, page: Buffer, { repetitionMax, definitionMax }: ParquetColumn): DataPage {
  let at = 0
  const levels = (max: number) => {
    if (max === 0) return null
    const start = at + 4
    at = start + page.readUInt32LE(at)
    return runs(page.subarray(start, at), bitsFor(max))
  }
  const [repetitions, definitions] = [levels(repetitionMax), levels(definitionMax)]
  const [count, encoding] = [Number(header.get(1)), Number(header.get(2))]
  return { kind: 'data', count, encoding, bytes: page.subarray(at), repetitions, definitions }
}

/** DataPageHeaderV2: 1 num_values, 4 encoding, 5 and 6 lengths of the levels, 7 whether the values are compressed. */
function secondVersion(
  header: Struct,
  { codec, body, expanded }: { codec: number; body: Buffer; expanded: number },
  { repetitionMax, definitionMax }: ParquetColumn,
): DataPage {
  const [definitions, repetitions] = [Number(header.get(5)), Number(header.get(6))]
  const levels = repetitions + definitions
  const values = body.subarray(levels)
  return {
    kind: 'data',
    count: Number(header.get(1)),
    encoding: Number(header.get(4)),
    bytes: header.get(7) === false ? values : expandPage(codec, values, expanded - levels),
    repetitions: runs(body.subarray(0, repetitions), bitsFor(repetitionMax)),
    definitions: runs(body.subarray(repetitions, levels), bitsFor(definitionMax)),
  }
}

const bitsFor = (max: number) => 32 - Math.clz32(max)
