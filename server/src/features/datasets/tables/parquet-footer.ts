import { CompactReader, type Struct } from './thrift-compact.ts'

const footerBytesMax = 64 * 1024 * 1024
const columnsMax = 5000

/** Reads bytes of a file; `end` is exclusive. */
export type ReadRange = (start: number, end: number) => Promise<Buffer>

/** Numbers as in the files. @source parquet.thrift, Type */
export type PhysicalType = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7

/** What the values of a column mean beyond their physical type. */
export type Meaning =
  | { as: 'plain' | 'text' | 'uuid' | 'half' | 'unsigned' | 'date' }
  | { as: 'decimal'; scale: number }
  | { as: 'timestamp' | 'time'; perSecond: number }

/** Where the values of a column lie in one row group. */
export interface ColumnChunk {
  codec: number
  start: number
  end: number
  values: number
}

/** A leaf of the schema. */
export interface ParquetColumn {
  /** Its path with dots; the groups that only make a list or a map are left out. */
  name: string
  type: PhysicalType
  /** Length of a value of a fixed length, in bytes. */
  typeLength: number
  meaning: Meaning
  nullable: boolean
  definitionMax: number
  repetitionMax: number
  /** Definition level from which on there is an element in the innermost list. */
  elementDefinition: number
  chunks: ColumnChunk[]
}

export interface ParquetFile {
  rows: number
  columns: ParquetColumn[]
}

/**
 * Rows and columns of a Parquet file as its footer tells them. Throws a `SyntaxError` for what is no such file.
 * @source parquet-format, parquet.thrift
 */
export async function readParquetFooter(size: number, readRange: ReadRange): Promise<ParquetFile> {
  if (size < 12) throw new SyntaxError('the file is too short for a Parquet file')
  const tail = await readRange(size - 8, size)
  const magic = tail.toString('latin1', 4)
  if (magic === 'PARE') throw new SyntaxError('the Parquet file is encrypted')
  if (magic !== 'PAR1') throw new SyntaxError('the file does not end like a Parquet file')
  const length = tail.readUInt32LE(0)
  const damaged = (cause?: unknown) => new SyntaxError('the footer of the Parquet file is damaged', { cause })
  if (length > Math.min(size - 12, footerBytesMax)) throw damaged()
  try {
    return fileOf(new CompactReader(await readRange(size - 8 - length, size - 8)).struct(), size)
  } catch (error) {
    throw damaged(error)
  }
}

/** FileMetaData: 2 schema, 3 num_rows, 4 row_groups. RowGroup: 1 columns. ColumnChunk: 3 meta_data. */
function fileOf(metadata: Struct, size: number): ParquetFile {
  const columns = leavesOf(metadata.get(2) as Struct[])
  if (columns.length > columnsMax || columns.some(({ type }) => !(type >= 0 && type <= 7)))
    throw new RangeError('the schema is damaged')
  for (const group of metadata.get(4) as Struct[]) {
    const chunks = group.get(1) as Struct[]
    if (chunks.length !== columns.length) throw new RangeError('a row group lacks columns')
    for (const [index, chunk] of chunks.entries()) columns[index]!.chunks.push(chunkOf(chunk.get(3) as Struct, size))
  }
  return { rows: Number(metadata.get(3)), columns }
}

/** ColumnMetaData: 4 codec, 5 num_values, 7 total_compressed_size, 9 data_page_offset, 11 dictionary_page_offset. */
function chunkOf(meta: Struct, size: number): ColumnChunk {
  const [data, dictionary] = [Number(meta.get(9)), Number(meta.get(11) ?? 0)]
  const start = dictionary > 0 ? Math.min(data, dictionary) : data
  const end = start + Number(meta.get(7))
  if (!(start >= 4 && end >= start && end <= size)) throw new RangeError('a column lies outside the file')
  return { codec: Number(meta.get(4)), start, end, values: Number(meta.get(5)) }
}

interface Level {
  path: string[]
  definition: number
  repetition: number
  element: number
  left: number
}

/** SchemaElement: 1 type, 2 type_length, 3 repetition_type (1 optional, 2 repeated), 4 name, 5 num_children. */
function leavesOf(schema: Struct[]): ParquetColumn[] {
  const columns: ParquetColumn[] = []
  const open: Level[] = [{ path: [], definition: 0, repetition: 0, element: 0, left: Number(schema[0]!.get(5) ?? 0) }]
  for (const element of schema.slice(1)) {
    while (open.at(-1)!.left === 0) open.pop()
    const parent = open.at(-1)!
    parent.left--
    const kind = Number(element.get(3) ?? 0)
    const definition = parent.definition + (kind === 0 ? 0 : 1)
    const level: Level = {
      path: [...parent.path, (element.get(4) as Buffer).toString()],
      definition,
      repetition: parent.repetition + (kind === 2 ? 1 : 0),
      element: kind === 2 ? definition : parent.element,
      left: Number(element.get(5) ?? 0),
    }
    if (level.left > 0) open.push(level)
    else columns.push(columnOf(element, level))
  }
  return columns
}

const columnOf = (element: Struct, { path, definition, repetition, element: elementDefinition }: Level) => ({
  name: path.join('.').replace(/\.(list\.(element|item)|bag\.array_element|key_value)(?=\.|$)/g, '') || path.join('.'),
  type: Number(element.get(1)) as PhysicalType,
  typeLength: Number(element.get(2) ?? 0),
  meaning: meaningOf(element),
  nullable: definition > 0,
  definitionMax: definition,
  repetitionMax: repetition,
  elementDefinition,
  chunks: [],
})

/**
 * SchemaElement: 6 converted_type, 7 scale, 10 logicalType. LogicalType: 1 text, 4 enum, 5 decimal, 6 date, 7 time,
 * 8 timestamp (1 UTC, 2 unit), 10 integer (1 bits, 2 signed), 12 JSON, 14 UUID, 15 half precision.
 */
function meaningOf(element: Struct): Meaning {
  const converted = Number(element.get(6) ?? -1)
  const [logical, details] = [...((element.get(10) as Struct | undefined) ?? [])][0] ?? [-1, null]
  const parts = details instanceof Map ? details : new Map()
  if ([1, 4, 12].includes(logical) || [0, 4, 19].includes(converted)) return { as: 'text' }
  if (logical === 5 || converted === 5) return { as: 'decimal', scale: Number(parts.get(1) ?? element.get(7) ?? 0) }
  if (logical === 6 || converted === 6) return { as: 'date' }
  if (logical === 7 || logical === 8) {
    const unit = Number([...((parts.get(2) as Struct | undefined)?.keys() ?? [])][0] ?? 1)
    return { as: logical === 7 ? 'time' : 'timestamp', perSecond: 1000 ** unit }
  }
  if (converted === 7 || converted === 8) return { as: 'time', perSecond: 1000 ** (converted - 6) }
  if (converted === 9 || converted === 10) return { as: 'timestamp', perSecond: 1000 ** (converted - 8) }
  if (logical === 10 ? parts.get(2) === false : converted >= 11 && converted <= 14) return { as: 'unsigned' }
  if (logical === 14) return { as: 'uuid' }
  return { as: logical === 15 ? 'half' : 'plain' }
}
