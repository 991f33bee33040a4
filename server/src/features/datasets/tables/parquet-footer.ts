import type { Variable } from '../validation-report.ts'

/** Numbers of the physical types. @source parquet.thrift, Type */
const physical = ['boolean', 'integer', 'integer', 'time', 'number', 'number', 'text', 'text'] as const
const footerBytesMax = 64 * 1024 * 1024
const magic = 'PAR1'

export interface ParquetSummary {
  rows: number
  variables: Variable[]
}

/** Reads bytes of a file; `end` is exclusive. */
export type ReadRange = (start: number, end: number) => Promise<Buffer>

/**
 * Rows, columns, missing values and ranges of a Parquet file as its footer tells them; the data itself is not read.
 * Throws a `SyntaxError` for what is no such file. @source parquet-format, parquet.thrift; Thrift compact protocol
 */
export async function readParquetFooter(size: number, readRange: ReadRange): Promise<ParquetSummary> {
  if (size < 12) throw new SyntaxError('the file is too short for a Parquet file')
  const tail = await readRange(size - 8, size)
  if (tail.toString('latin1', 4) !== magic) throw new SyntaxError('the file does not end like a Parquet file')
  const length = tail.readUInt32LE(0)
  if (length > Math.min(size - 12, footerBytesMax)) throw new SyntaxError('the footer of the Parquet file is damaged')
  try {
    return summarise(new CompactReader(await readRange(size - 8 - length, size - 8)).struct())
  } catch (error) {
    throw new SyntaxError('the footer of the Parquet file is damaged', { cause: error })
  }
}

type Struct = Map<number, Value>
type Value = number | bigint | boolean | Buffer | Struct | Value[]

interface Column {
  nulls: number
  min: number
  max: number
}

/** FileMetaData: 2 schema, 3 num_rows, 4 row_groups. */
function summarise(metadata: Struct): ParquetSummary {
  const rows = Number(metadata.get(3))
  const leaves = (metadata.get(2) as Struct[]).slice(1).filter((element) => element.has(1))
  const columns = new Map<string, Column>()
  for (const group of metadata.get(4) as Struct[]) {
    for (const chunk of group.get(1) as Struct[]) {
      const meta = chunk.get(3) as Struct | undefined
      if (meta) addChunk(columns, meta)
    }
  }
  const variables = leaves.map((element) => {
    const name = (element.get(4) as Buffer).toString()
    const column = columns.get(name)
    const dtype = dtypeOf(element)
    const numeric = dtype === 'integer' || dtype === 'number'
    const known = numeric && column && Number.isFinite(column.min) && Number.isFinite(column.max)
    return {
      name,
      dtype,
      nullable: element.get(3) === 1,
      min: known ? column.min : null,
      max: known ? column.max : null,
      missing_rate: column && rows > 0 ? Math.min(1, column.nulls / rows) : null,
    }
  })
  return { rows, variables }
}

/** SchemaElement: 1 type, 6 converted_type (5 decimal, 6–10 times), 10 logicalType (5 decimal, 6–8 times). */
function dtypeOf(element: Struct): string {
  const converted = Number(element.get(6) ?? -1)
  const logical = Number((element.get(10) as Struct | undefined)?.keys().next().value ?? -1)
  if ((converted >= 6 && converted <= 10) || (logical >= 6 && logical <= 8)) return 'time'
  return converted === 5 || logical === 5 ? 'number' : physical[Number(element.get(1))]!
}

/** ColumnMetaData: 1 type, 3 path, 12 statistics. Statistics: 3 nulls, 5 max_value, 6 min_value. */
function addChunk(columns: Map<string, Column>, meta: Struct): void {
  const name = (meta.get(3) as Buffer[]).at(-1)!.toString()
  const column = columns.get(name) ?? { nulls: 0, min: Number.POSITIVE_INFINITY, max: Number.NEGATIVE_INFINITY }
  columns.set(name, column)
  const statistics = meta.get(12) as Struct | undefined
  if (!statistics) return
  column.nulls += Number(statistics.get(3) ?? 0)
  const type = Number(meta.get(1))
  const [max, min] = [5, 6].map((field) => plainNumber(type, statistics.get(field) as Buffer | undefined))
  if (min !== null && min !== undefined) column.min = Math.min(column.min, min)
  if (max !== null && max !== undefined) column.max = Math.max(column.max, max)
}

function plainNumber(type: number, bytes: Buffer | undefined): number | null {
  if (!bytes) return null
  if (type === 1 && bytes.length === 4) return bytes.readInt32LE()
  if (type === 2 && bytes.length === 8) return Number(bytes.readBigInt64LE())
  if (type === 4 && bytes.length === 4) return bytes.readFloatLE()
  if (type === 5 && bytes.length === 8) return bytes.readDoubleLE()
  return null
}

const nestingMax = 32

/** @source Thrift compact protocol specification */
class CompactReader {
  #bytes: Buffer
  #at = 0
  #depth = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  struct(): Struct {
    if (++this.#depth > nestingMax) throw new RangeError('nested too deeply')
    const fields: Struct = new Map()
    let id = 0
    for (let head = this.#byte(); head !== 0; head = this.#byte()) {
      id = head >> 4 ? id + (head >> 4) : Number(this.#zigzag())
      const type = head & 15
      fields.set(id, type === 1 || type === 2 ? type === 1 : this.#value(type))
    }
    this.#depth--
    return fields
  }

  #value(type: number): Value {
    if (type === 1 || type === 2) return this.#byte() === 1
    if (type === 3) return this.#byte()
    if (type >= 4 && type <= 6) return Number(this.#zigzag())
    if (type === 7) return this.#take(8).readDoubleLE()
    if (type === 8) return this.#take(Number(this.#varint()))
    if (type === 9 || type === 10) return this.#list()
    if (type === 12) return this.struct()
    throw new RangeError(`type ${type} is not known`)
  }

  #list(): Value[] {
    const head = this.#byte()
    const count = head >> 4 === 15 ? Number(this.#varint()) : head >> 4
    if (count > this.#bytes.length) throw new RangeError('a list is longer than the footer')
    return Array.from({ length: count }, () => this.#value(head & 15))
  }

  #byte(): number {
    return this.#take(1)[0]!
  }

  #take(length: number): Buffer {
    if (this.#at + length > this.#bytes.length) throw new RangeError('the footer ends early')
    this.#at += length
    return this.#bytes.subarray(this.#at - length, this.#at)
  }

  #varint(): bigint {
    let value = 0n
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.#byte()
      value |= BigInt(byte & 127) << shift
      if (byte < 128) return value
    }
    throw new RangeError('a number is too long')
  }

  #zigzag(): bigint {
    const value = this.#varint()
    return (value >> 1n) ^ -(value & 1n)
  }
}
