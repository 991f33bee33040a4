import { Readable } from 'node:stream'
import { crc32 } from 'node:zlib'

/** A file that goes into an archive as it is: models hardly shrink. */
export interface ZipMember {
  /** Path with slashes. */
  name: string
  /** In bytes. */
  size: number
  open(): Promise<Readable>
}

const limit32 = 0xffff_ffff
const limit16 = 0xffff
const utf8AndDescriptor = 0x0808

interface Entry {
  name: Buffer
  size: number
  offset: number
  crc: number
}

/** Length of the archive in bytes, known before the first byte of a member is read. */
export function zipSize(members: ZipMember[]): number {
  let offset = 0
  let directory = 0
  for (const member of members) {
    const entry = { name: Buffer.from(member.name), size: member.size, offset, crc: 0 }
    directory += directoryRecord(entry, 0).length
    offset += localHeader(entry, 0).length + member.size + descriptor(entry).length
  }
  return offset + directory + endRecords(members.length, directory, offset).length
}

/**
 * An archive made while it is read: one member is open at a time and nothing is kept but the directory.
 * @source PKWARE APPNOTE 6.3.10 (§4.3.9 data descriptor, §4.3.14 ZIP64)
 */
export function zipStream(members: ZipMember[], modified: Date): Readable {
  return Readable.from(zipPieces(members, dosTime(modified)), { objectMode: false })
}

async function* zipPieces(members: ZipMember[], time: number): AsyncGenerator<Buffer> {
  const entries: Entry[] = []
  let offset = 0
  for (const member of members) {
    const entry: Entry = { name: Buffer.from(member.name), size: member.size, offset, crc: 0 }
    const header = localHeader(entry, time)
    yield header
    let length = 0
    for await (const piece of await member.open()) {
      entry.crc = crc32(piece as Buffer, entry.crc)
      length += (piece as Buffer).length
      yield piece as Buffer
    }
    if (length !== member.size) throw new Error(`${member.name} is ${length} bytes long, not ${member.size}`)
    const trailer = descriptor(entry)
    yield trailer
    offset += header.length + length + trailer.length
    entries.push(entry)
  }
  const directory = Buffer.concat(entries.map((entry) => directoryRecord(entry, time)))
  yield directory
  yield endRecords(entries.length, directory.length, offset)
}

const isLarge = (entry: Entry) => entry.size >= limit32

function localHeader(entry: Entry, time: number): Buffer {
  // A reader that streams must know that the descriptor has eight-byte sizes: that is what the extra field says.
  const extra = isLarge(entry) ? zip64Extra([0, 0]) : Buffer.alloc(0)
  const header = Buffer.alloc(30)
  header.writeUInt32LE(0x04034b50, 0)
  header.writeUInt16LE(isLarge(entry) ? 45 : 20, 4)
  header.writeUInt16LE(utf8AndDescriptor, 6)
  header.writeUInt32LE(time, 10)
  if (isLarge(entry)) header.fill(0xff, 18, 26)
  header.writeUInt16LE(entry.name.length, 26)
  header.writeUInt16LE(extra.length, 28)
  return Buffer.concat([header, entry.name, extra])
}

function descriptor(entry: Entry): Buffer {
  const record = Buffer.alloc(isLarge(entry) ? 24 : 16)
  record.writeUInt32LE(0x08074b50, 0)
  record.writeUInt32LE(entry.crc, 4)
  if (isLarge(entry)) {
    record.writeBigUInt64LE(BigInt(entry.size), 8)
    record.writeBigUInt64LE(BigInt(entry.size), 16)
  } else {
    record.writeUInt32LE(entry.size, 8)
    record.writeUInt32LE(entry.size, 12)
  }
  return record
}

function directoryRecord(entry: Entry, time: number): Buffer {
  const far = entry.offset >= limit32
  const extra = zip64Extra([...(isLarge(entry) ? [entry.size, entry.size] : []), ...(far ? [entry.offset] : [])])
  const record = Buffer.alloc(46)
  record.writeUInt32LE(0x02014b50, 0)
  record.writeUInt16LE(45, 4)
  record.writeUInt16LE(extra.length > 0 ? 45 : 20, 6)
  record.writeUInt16LE(utf8AndDescriptor, 8)
  record.writeUInt32LE(time, 12)
  record.writeUInt32LE(entry.crc, 16)
  record.writeUInt32LE(Math.min(entry.size, limit32), 20)
  record.writeUInt32LE(Math.min(entry.size, limit32), 24)
  record.writeUInt16LE(entry.name.length, 28)
  record.writeUInt16LE(extra.length, 30)
  record.writeUInt32LE(Math.min(entry.offset, limit32), 42)
  return Buffer.concat([record, entry.name, extra])
}

function zip64Extra(values: number[]): Buffer {
  if (values.length === 0) return Buffer.alloc(0)
  const extra = Buffer.alloc(4 + 8 * values.length)
  extra.writeUInt16LE(1, 0)
  extra.writeUInt16LE(8 * values.length, 2)
  for (const [place, value] of values.entries()) extra.writeBigUInt64LE(BigInt(value), 4 + 8 * place)
  return extra
}

function endRecords(count: number, size: number, offset: number): Buffer {
  const large = count >= limit16 || size >= limit32 || offset >= limit32
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(Math.min(count, limit16), 8)
  end.writeUInt16LE(Math.min(count, limit16), 10)
  end.writeUInt32LE(Math.min(size, limit32), 12)
  end.writeUInt32LE(Math.min(offset, limit32), 16)
  return large ? Buffer.concat([zip64End(count, size, offset), end]) : end
}

function zip64End(count: number, size: number, offset: number): Buffer {
  const record = Buffer.alloc(56 + 20)
  record.writeUInt32LE(0x06064b50, 0)
  record.writeBigUInt64LE(44n, 4)
  record.writeUInt16LE(45, 12)
  record.writeUInt16LE(45, 14)
  record.writeBigUInt64LE(BigInt(count), 24)
  record.writeBigUInt64LE(BigInt(count), 32)
  record.writeBigUInt64LE(BigInt(size), 40)
  record.writeBigUInt64LE(BigInt(offset), 48)
  record.writeUInt32LE(0x07064b50, 56)
  record.writeBigUInt64LE(BigInt(offset + size), 64)
  record.writeUInt32LE(1, 72)
  return record
}

/** Date and time in two-second steps since 1980, as archives keep them. */
function dosTime(date: Date): number {
  const time = (date.getUTCHours() << 11) | (date.getUTCMinutes() << 5) | (date.getUTCSeconds() >> 1)
  const day = (Math.max(0, date.getUTCFullYear() - 1980) << 9) | ((date.getUTCMonth() + 1) << 5) | date.getUTCDate()
  return ((day << 16) | time) >>> 0
}
