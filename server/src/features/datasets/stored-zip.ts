import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { crc32 } from 'node:zlib'

export interface ZipFileEntry {
  path: string
  size: number
}

/** Read once when they fit this, else once for the checksum and once to be sent. */
const bufferedBytes = 4 * 1024 * 1024
const localBytes = 30
const directoryBytes = 46
/** The ZIP64 field, in every entry, so that the length of the archive follows from the lengths of its parts. */
const localExtraBytes = 20
const directoryExtraBytes = 28
const endBytes = 56 + 20 + 22
/** 1 January 1980, the first day that can be written: archives must not tell when they were made. */
const dosDate = 0x21

/** Length of the archive that `storedZip` makes, in bytes. */
export function storedZipBytes({
  files,
  bytes,
  pathBytes,
}: {
  files: number
  bytes: number
  pathBytes: number
}): number {
  return (
    bytes + 2 * pathBytes + files * (localBytes + localExtraBytes + directoryBytes + directoryExtraBytes) + endBytes
  )
}

interface Written extends ZipFileEntry {
  name: Buffer
  crc: number
  start: number
}

/**
 * A ZIP archive without compression, whose bytes depend on nothing but paths and contents in the order given. ZIP64
 * throughout, so any size goes. Holds one small record per file. @source APPNOTE 6.3.10 §4.3
 */
export async function* storedZip<E extends ZipFileEntry>(
  entries: AsyncIterable<E>,
  open: (entry: E) => Promise<Readable>,
): AsyncGenerator<Uint8Array> {
  const written: Written[] = []
  let at = 0
  for await (const entry of entries) {
    const { path, size } = entry
    const content = size <= bufferedBytes ? await buffer(await open(entry)) : null
    const crc = content ? crc32(content) : await checksum(await open(entry))
    const file = { path, size, name: Buffer.from(path), crc, start: at }
    yield localHeader(file)
    if (content) yield content
    else yield* await open(entry)
    at += localBytes + file.name.length + localExtraBytes + size
    written.push(file)
  }
  const directoryStart = at
  for (const file of written) {
    yield directoryEntry(file)
    at += directoryBytes + file.name.length + directoryExtraBytes
  }
  yield endRecords(written.length, directoryStart, at - directoryStart)
}

async function checksum(content: AsyncIterable<Uint8Array>): Promise<number> {
  let crc = 0
  for await (const part of content) crc = crc32(part, crc)
  return crc
}

/** Version 4.5, UTF-8 names, stored, the fixed date, checksum, sizes in the ZIP64 field. */
function commonFields({ crc, name }: Written, extraBytes: number): Buffer {
  const fields = Buffer.alloc(26)
  fields.writeUInt16LE(45, 0)
  fields.writeUInt16LE(0x800, 2)
  fields.writeUInt16LE(dosDate, 8)
  fields.writeUInt32LE(crc, 10)
  fields.writeUInt32LE(0xffffffff, 14)
  fields.writeUInt32LE(0xffffffff, 18)
  fields.writeUInt16LE(name.length, 22)
  fields.writeUInt16LE(extraBytes, 24)
  return fields
}

function zip64Field(numbers: number[]): Buffer {
  const field = Buffer.alloc(4 + 8 * numbers.length)
  field.writeUInt16LE(1, 0)
  field.writeUInt16LE(8 * numbers.length, 2)
  for (const [index, number] of numbers.entries()) field.writeBigUInt64LE(BigInt(number), 4 + 8 * index)
  return field
}

const localHeader = (file: Written): Buffer =>
  Buffer.concat([
    Buffer.from('PK\x03\x04', 'latin1'),
    commonFields(file, localExtraBytes),
    file.name,
    zip64Field([file.size, file.size]),
  ])

function directoryEntry(file: Written): Buffer {
  const tail = Buffer.alloc(14)
  // A plain file of a Unix system that everybody may read.
  tail.writeUInt32LE((0o100644 << 16) >>> 0, 6)
  tail.writeUInt32LE(0xffffffff, 10)
  const made = Buffer.from('PK\x01\x02\x2d\x03', 'latin1')
  const fields = commonFields(file, directoryExtraBytes)
  return Buffer.concat([made, fields, tail, file.name, zip64Field([file.size, file.size, file.start])])
}

function endRecords(files: number, directoryStart: number, directorySize: number): Buffer {
  const end64 = Buffer.alloc(56)
  end64.write('PK\x06\x06', 'latin1')
  end64.writeBigUInt64LE(44n, 4)
  end64.writeUInt16LE(45, 12)
  end64.writeUInt16LE(45, 14)
  for (const [index, number] of [files, files, directorySize, directoryStart].entries())
    end64.writeBigUInt64LE(BigInt(number), 24 + 8 * index)
  const locator = Buffer.alloc(20)
  locator.write('PK\x06\x07', 'latin1')
  locator.writeBigUInt64LE(BigInt(directoryStart + directorySize), 8)
  locator.writeUInt32LE(1, 16)
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 'latin1')
  end.writeUInt16LE(0xffff, 8)
  end.writeUInt16LE(0xffff, 10)
  end.writeUInt32LE(0xffffffff, 12)
  end.writeUInt32LE(0xffffffff, 16)
  return Buffer.concat([end64, locator, end])
}
