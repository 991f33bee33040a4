import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib'

const codecNames = ['none', 'Snappy', 'gzip', 'LZO', 'Brotli', 'LZ4 (Hadoop)', 'Zstandard', 'LZ4']

/**
 * Expands a page to exactly `size` bytes, and never to more. Throws a `SyntaxError` for another compression.
 * @source parquet.thrift, CompressionCodec
 */
export function expandPage(codec: number, bytes: Buffer, size: number): Buffer {
  const expanded = expand(codec, bytes, size)
  if (expanded.length !== size) throw new RangeError('a page has another length than it says')
  return expanded
}

function expand(codec: number, bytes: Buffer, size: number): Buffer {
  const limit = { maxOutputLength: Math.max(1, size) }
  if (codec === 0 || size === 0) return bytes.subarray(0, size)
  if (codec === 1) return expandSnappy(bytes, size)
  if (codec === 2) return gunzipSync(bytes, limit)
  if (codec === 4) return brotliDecompressSync(bytes, limit)
  if (codec === 6) return zstdDecompressSync(bytes, limit)
  if (codec === 7) return expandLz4(bytes, size)
  throw new SyntaxError(`its compression, ${codecNames[codec] ?? codec}, is not supported`)
}

/** Writes what was there `offset` bytes ago; the two may overlap, which repeats it. */
function repeat(output: Buffer, at: number, offset: number, length: number): void {
  if (offset <= 0 || offset > at || at + length > output.length) throw new RangeError('a page is damaged')
  if (offset >= length) output.copyWithin(at, at - offset, at - offset + length)
  else for (let i = at; i < at + length; i++) output[i] = output[i - offset]!
}

/** @source Snappy format description (2011) */
function expandSnappy(input: Buffer, size: number): Buffer {
  const output = Buffer.alloc(size)
  let from = 0
  while (input[from++]! > 127);
  let to = 0
  while (from < input.length) {
    const tag = input[from++]!
    if ((tag & 3) === 0) {
      const extra = Math.max(0, (tag >> 2) - 59)
      const length = 1 + (extra ? input.readUIntLE(from, extra) : tag >> 2)
      from += extra
      if (from + length > input.length || to + length > size) throw new RangeError('a page is damaged')
      to += input.copy(output, to, from, from + length)
      from += length
      continue
    }
    const bytes = [0, 1, 2, 4][tag & 3]!
    const offset = input.readUIntLE(from, bytes) + (bytes === 1 ? (tag >> 5) << 8 : 0)
    const length = bytes === 1 ? 4 + ((tag >> 2) & 7) : 1 + (tag >> 2)
    from += bytes
    repeat(output, to, offset, length)
    to += length
  }
  return output.subarray(0, to)
}

/** @source LZ4 Block Format Description */
function expandLz4(input: Buffer, size: number): Buffer {
  const output = Buffer.alloc(size)
  let from = 0
  let to = 0
  const lengthFrom = (nibble: number) => {
    let length = nibble
    for (let more = nibble === 15; more; ) {
      const byte = input.readUInt8(from++)
      length += byte
      more = byte === 255
    }
    return length
  }
  while (from < input.length) {
    const token = input[from++]!
    const literal = lengthFrom(token >> 4)
    if (from + literal > input.length || to + literal > size) throw new RangeError('a page is damaged')
    to += input.copy(output, to, from, from + literal)
    from += literal
    // The last sequence has no repetition.
    if (from >= input.length) break
    const offset = input.readUInt16LE(from)
    from += 2
    const length = 4 + lengthFrom(token & 15)
    repeat(output, to, offset, length)
    to += length
  }
  return output.subarray(0, to)
}
