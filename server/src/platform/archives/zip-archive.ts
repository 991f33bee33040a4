import { createReadStream } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { pipeline } from 'node:stream'
import { crc32, createInflateRaw, inflateRawSync } from 'node:zlib'
import { ArchiveError } from './archive-error.ts'
import { type WindowReader, windowReader } from './window-reader.ts'
import { readZipDirectory, type SkippedMember, type ZipLimits, type ZipPlace } from './zip-directory.ts'

/** One file of a ZIP archive. */
export interface ZipMember {
  /** Relative, with slashes, NFC, without control characters, `.` or `..`; unique in the archive. */
  path: string
  /** Expanded length in bytes, which the content has or is refused. */
  size: number
  /** The content, once; leave its errors to `readZip`, and keep nothing of content that ended in one. */
  open(): AsyncIterable<Uint8Array>
}

export interface ReadZipOptions {
  signal?: AbortSignal
  /** Members visited at once; 1 unless told. More pays when each visit waits for the disk. */
  concurrency?: number
  /** After each member: how far it is, of how much. `bytes` are compressed ones. */
  onProgress?: (done: ZipProgress, total: ZipProgress) => void
}

export interface ZipProgress {
  members: number
  bytes: number
}

/** Up to here one synchronous call beats the set-up of a stream, and blocks for less than a millisecond. */
const smallBytes = 256 * 1024
const windowBytes = 1024 * 1024

/**
 * Visits the files of an untrusted ZIP archive in the order of its directory and reports what was left out. Stored and
 * deflated members and ZIP64 are read; directories and the droppings of desktop systems are passed over. Nothing is
 * visited of an archive whose directory is bad; throws `ArchiveError` then, and also when a member turns out to lie
 * about its length. A member that can't be read is skipped, though `visit` saw its beginning. @source contract B5.7
 */
export async function readZip(
  path: string,
  limits: ZipLimits,
  visit: (member: ZipMember) => Promise<void>,
  { signal, concurrency = 1, onProgress }: ReadZipOptions = {},
): Promise<{ skipped: SkippedMember[] }> {
  const file = await open(path, 'r')
  try {
    const { places, skipped } = await readZipDirectory(file, limits, signal)
    const reader = windowReader(file, (await file.stat()).size, windowBytes)
    const total = { members: places.length, bytes: places.reduce((sum, place) => sum + place.compressedSize, 0) }
    const done = { members: 0, bytes: 0 }
    await eachAtOnce(places, concurrency, async (place) => {
      signal?.throwIfAborted()
      const reason = await visitMember(file, reader, place, visit)
      if (reason) skipped.push({ path: place.path, reason })
      done.members++
      done.bytes += place.compressedSize
      onProgress?.({ ...done }, total)
    })
    return { skipped }
  } finally {
    await file.close()
  }
}

/** Stops taking new items after the first failure and waits for those under way, so that the file may be closed. */
async function eachAtOnce<T>(items: T[], concurrency: number, work: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values()
  const failures: unknown[] = []
  const lane = async () => {
    for (const item of rest) {
      if (failures.length > 0) return
      await work(item).catch((error) => failures.push(error))
    }
  }
  await Promise.all(Array.from({ length: concurrency }, lane))
  if (failures.length > 0) throw failures[0]
}

/** Returns why the member was unreadable, or null. */
async function visitMember(
  file: FileHandle,
  reader: WindowReader,
  place: ZipPlace,
  visit: (member: ZipMember) => Promise<void>,
): Promise<string | null> {
  let fault: Error | null = null
  async function* content() {
    try {
      const large = Math.max(place.size, place.compressedSize) > smallBytes
      yield* checked(place, large ? expandLarge(file, place) : expandSmall(reader, place))
    } catch (error) {
      fault = error as Error
      throw error
    }
  }
  try {
    await visit({ path: place.path, size: place.size, open: content })
  } catch (error) {
    // Only what the content itself threw may count against the member, never a fault of the visitor's own.
    if (!fault) throw error
  }
  if (fault && !isDamage(fault)) throw fault
  return fault ? 'the content is damaged' : null
}

class DamagedContent extends Error {}

const isDamage = (error: NodeJS.ErrnoException) => error instanceof DamagedContent || error.code?.startsWith('Z_')

const lies = (place: ZipPlace) =>
  new ArchiveError(
    'size_mismatch',
    `The archive announces ${place.size} bytes for an entry of another length`,
    place.path,
  )

async function* checked(place: ZipPlace, parts: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let size = 0
  let sum = 0
  for await (const part of parts) {
    size += part.length
    if (size > place.size) throw lies(place)
    sum = crc32(part, sum)
    yield part
  }
  if (size < place.size) throw lies(place)
  if (sum !== place.crc32) throw new DamagedContent('the checksum differs')
}

async function* expandSmall(reader: WindowReader, place: ZipPlace): AsyncGenerator<Uint8Array> {
  const bytes = await reader.read(place.dataStart, place.compressedSize)
  yield place.deflated ? inflateSmall(bytes, place) : bytes
}

function inflateSmall(bytes: Buffer, place: ZipPlace): Buffer {
  try {
    return inflateRawSync(bytes, { maxOutputLength: Math.max(1, place.size) })
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE' ? lies(place) : error
  }
}

function expandLarge(file: FileHandle, place: ZipPlace): AsyncIterable<Uint8Array> {
  if (place.compressedSize === 0) throw lies(place)
  const end = place.dataStart + place.compressedSize - 1
  const raw = createReadStream('', {
    fd: file.fd,
    start: place.dataStart,
    end,
    autoClose: false,
    highWaterMark: 256 * 1024,
  })
  return place.deflated ? pipeline(raw, createInflateRaw({ chunkSize: 256 * 1024 }), () => {}) : raw
}
