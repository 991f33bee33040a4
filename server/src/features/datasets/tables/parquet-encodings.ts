import type { ParquetColumn } from './parquet-footer.ts'

/** A value as it is stored: a number, a boolean, or bytes. */
export type Stored = number | bigint | boolean | Buffer

/** Writers put some ten thousand into a page. */
const valuesPerPageMax = 16 * 1024 * 1024
const valueBytesMax = 16 * 1024 * 1024

/** The stored values of a page, lazily: a run of a million costs no memory. Throws `RangeError` for damage. */
export function storedValues(
  bytes: Buffer,
  encoding: number,
  column: ParquetColumn,
  dictionary: Stored[] | null,
): Iterator<Stored> {
  const { type } = column
  if (encoding === 0) return plainValues(bytes, column)
  if (encoding === 2 || encoding === 8) return fromDictionary(bytes, dictionary ?? [])
  if (encoding === 3 && type === 0) return booleans(runs(bytes.subarray(4), 1))
  if (encoding === 5 && (type === 1 || type === 2)) return deltas({ bytes, at: 0 }, type === 1 ? 32 : 64)
  if (encoding === 6 && type === 6) return lengthsThenBytes({ bytes, at: 0 })
  if (encoding === 7 && (type === 6 || type === 7)) return sharedPrefixes({ bytes, at: 0 })
  if (encoding === 9) return plainValues(joined(bytes, widthOf(column)), column)
  throw new SyntaxError(`its encoding ${encoding} is not supported`)
}

const widthOf = ({ type, typeLength }: ParquetColumn) => [0, 4, 8, 12, 4, 8, 0, typeLength][type]!

/** @source parquet-format, Encodings.md, "Plain" */
export function* plainValues(bytes: Buffer, column: ParquetColumn): Generator<Stored> {
  const { type } = column
  if (type === 0) {
    for (let at = 0; at < bytes.length * 8; at++) yield ((bytes[at >> 3]! >> (at & 7)) & 1) === 1
    return
  }
  if (type === 6) {
    for (let at = 0; at < bytes.length; ) {
      const length = bytes.readUInt32LE(at)
      yield slice(bytes, at + 4, length)
      at += 4 + length
    }
    return
  }
  const width = widthOf(column)
  if (width < 1) throw new RangeError('values have no length')
  for (let at = 0; at + width <= bytes.length; at += width) {
    if (type === 1) yield bytes.readInt32LE(at)
    else if (type === 2) yield bytes.readBigInt64LE(at)
    else if (type === 4) yield bytes.readFloatLE(at)
    else if (type === 5) yield bytes.readDoubleLE(at)
    else yield bytes.subarray(at, at + width)
  }
}

function slice(bytes: Buffer, start: number, length: number): Buffer {
  if (length < 0 || start + length > bytes.length) throw new RangeError('a value reaches beyond its page')
  return bytes.subarray(start, start + length)
}

function* fromDictionary(bytes: Buffer, dictionary: Stored[]): Generator<Stored> {
  if (bytes.length === 0) return
  for (const index of runs(bytes.subarray(1), bytes[0]!)) {
    if (index >= dictionary.length) throw new RangeError('a value is not in the dictionary')
    yield dictionary[index]!
  }
}

function* booleans(bits: Iterable<number>): Generator<boolean> {
  for (const bit of bits) yield bit === 1
}

/** Run lengths and bit-packed values in turns. @source Encodings.md, "Run Length Encoding / Bit-Packing Hybrid" */
export function* runs(bytes: Buffer, width: number): Generator<number> {
  if (width > 32) throw new RangeError('values are too wide')
  const from: Cursor = { bytes, at: 0 }
  while (from.at < bytes.length) {
    const head = Number(varint(from))
    if (head & 1) {
      const count = Math.floor(head / 2) * 8
      // The last group may be cut short: nobody asks for its padding.
      const packed = Math.min(count, Math.floor(((bytes.length - from.at) * 8) / Math.max(1, width)))
      for (let index = 0; index < packed; index++) yield unpack(bytes, from.at * 8 + index * width, width)
      from.at += (count * width) / 8
    } else {
      const size = Math.ceil(width / 8)
      if (from.at + size > bytes.length) throw new RangeError('a run ends early')
      const value = size === 0 ? 0 : bytes.readUIntLE(from.at, size)
      from.at += size
      for (let left = Math.floor(head / 2); left > 0; left--) yield value
    }
  }
}

/** `width` bits from a bit position on, least significant first. */
function unpack(bytes: Buffer, position: number, width: number): number {
  let value = 0
  for (let done = 0; done < width; ) {
    const at = position + done
    const take = Math.min(8 - (at & 7), width - done)
    value += ((bytes[at >> 3]! >> (at & 7)) & ((1 << take) - 1)) * 2 ** done
    done += take
  }
  return value
}

interface Cursor {
  bytes: Buffer
  at: number
}

function varint(from: Cursor): bigint {
  let value = 0n
  for (let shift = 0n; shift < 70n; shift += 7n) {
    const byte = from.bytes.readUInt8(from.at++)
    value |= BigInt(byte & 127) << shift
    if (byte < 128) return value
  }
  throw new RangeError('a number is too long')
}

function zigzag(from: Cursor): bigint {
  const value = varint(from)
  return (value >> 1n) ^ -(value & 1n)
}

/** @source Encodings.md, "Delta Encoding" */
function* deltas(from: Cursor, bits: 32 | 64): Generator<number | bigint> {
  const blockSize = Number(varint(from))
  const blocks = Number(varint(from))
  let left = Number(varint(from))
  let value = zigzag(from)
  const perBlock = blockSize / blocks
  if (!(perBlock >= 8 && perBlock % 8 === 0 && left <= valuesPerPageMax))
    throw new RangeError('a block of differences is damaged')
  const shown = () => (bits === 32 ? Number(BigInt.asIntN(32, value)) : BigInt.asIntN(64, value))
  if (left-- > 0) yield shown()
  while (left > 0) {
    const least = zigzag(from)
    const widths = slice(from.bytes, from.at, blocks)
    from.at += blocks
    for (const width of widths) {
      if (left <= 0) break
      slice(from.bytes, from.at, (Math.min(perBlock, left) * width) >> 3)
      for (let index = 0; index < perBlock && left > 0; index++, left--) {
        value = BigInt.asIntN(bits, value + least + wide(from.bytes, from.at * 8 + index * width, width))
        yield shown()
      }
      from.at += (perBlock * width) / 8
    }
  }
}

function wide(bytes: Buffer, position: number, width: number): bigint {
  if (width <= 32) return BigInt(unpack(bytes, position, width))
  return BigInt(unpack(bytes, position, 32)) | (BigInt(unpack(bytes, position + 32, width - 32)) << 32n)
}

/** @source Encodings.md, "Delta-length byte array" */
function* lengthsThenBytes(from: Cursor): Generator<Buffer> {
  const lengths = [...deltas(from, 32)].map(Number)
  for (const length of lengths) {
    yield slice(from.bytes, from.at, length)
    from.at += length
  }
}

/** @source Encodings.md, "Delta Strings" */
function* sharedPrefixes(from: Cursor): Generator<Buffer> {
  const prefixes = [...deltas(from, 32)].map(Number)
  const suffixes = lengthsThenBytes(from)
  let before = Buffer.alloc(0)
  for (const length of prefixes) {
    const { value: suffix, done } = suffixes.next()
    if (done) return
    if (length + suffix.length > valueBytesMax) throw new RangeError('a value is too long')
    before = Buffer.concat([slice(before, 0, length), suffix])
    yield before
  }
}

/** Puts the bytes of values that were stored byte by byte together again. @source Encodings.md, "Byte Stream Split" */
function joined(bytes: Buffer, width: number): Buffer {
  const count = Math.floor(bytes.length / Math.max(1, width))
  const whole = Buffer.alloc(count * width)
  for (let part = 0; part < width; part++)
    for (let index = 0; index < count; index++) whole[index * width + part] = bytes[part * count + index]!
  return whole
}
