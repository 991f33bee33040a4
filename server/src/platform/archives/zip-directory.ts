import type { FileHandle } from 'node:fs/promises'
import { type Entry, fromRandomAccessReaderPromise, RandomAccessReader, type ZipFile } from 'yauzl'
import { ArchiveError } from './archive-error.ts'
import { type WindowReader, windowReader } from './window-reader.ts'
import { unusableName, zipEntryName } from './zip-names.ts'

export interface ZipLimits {
  /** Largest sum of the members' expanded lengths, in bytes. */
  totalBytes: number
  /** Largest number of entries of any kind; 100 000 unless told. */
  entries?: number
  /** Largest expansion of the archive as a whole once it passes 1 MiB; 200 unless told. */
  ratio?: number
}

export interface SkippedMember {
  path: string
  /** For people. */
  reason: string
}

/** Where a member lies; everything here was checked against everything else. */
export interface ZipPlace {
  path: string
  /** Expanded length in bytes. */
  size: number
  compressedSize: number
  dataStart: number
  deflated: boolean
  crc32: number
}

/** Past this many bytes the ratio counts. */
const ratioFreeBytes = 1024 * 1024
/** Of a name that can't be used this much is told. */
const shownCharsMax = 300
const directoryWindowBytes = 1024 * 1024
/** Local headers lie scattered: a window just large enough to hold those of several small members. */
const headerWindowBytes = 64 * 1024

/**
 * Reads the central directory and every local header and checks all that needs no inflating, so that a hostile archive
 * is refused before any of its content is used. Throws `ArchiveError`. @source contract B5.7
 */
export async function readZipDirectory(
  file: FileHandle,
  { totalBytes, entries = 100_000, ratio = 200 }: ZipLimits,
  signal?: AbortSignal,
): Promise<{ places: ZipPlace[]; skipped: SkippedMember[] }> {
  const { size } = await file.stat()
  const zip = await openZip(file, size)
  if (zip.entryCount > entries) {
    throw new ArchiveError(
      'too_many_entries',
      `The archive has ${zip.entryCount} entries; at most ${entries} are taken`,
    )
  }
  const { found, directoryStart, directoryEnd, skipped } = await readEntries(zip, signal)
  await requireWholeDirectory(file, directoryEnd)
  const places = await locate(found, windowReader(file, size, headerWindowBytes), directoryStart, signal)
  requireModest(places, totalBytes, ratio)
  return choose(places, skipped)
}

/**
 * The number of entries is a claim, wrong in what tools without ZIP64 make of more than 65,535: what follows the last
 * one tells whether it was true. @source APPNOTE 6.3.10 §4.3.6
 */
async function requireWholeDirectory(file: FileHandle, end: number): Promise<void> {
  const next = Buffer.alloc(4)
  await file.read(next, 0, 4, end)
  if (next.readUInt32LE(0) === 0x02014b50)
    throw new ArchiveError('damaged', 'The archive lists more entries than it announces; pack it again as ZIP64')
}

/** An entry of the directory; one that is left out has the path '', but its bytes still count. */
interface Found extends Omit<ZipPlace, 'dataStart'> {
  headerStart: number
}

async function openZip(file: FileHandle, size: number): Promise<ZipFile> {
  const start = Buffer.alloc(4)
  await file.read(start, 0, 4, 0)
  const signature = start.readUInt32LE(0)
  if (signature !== 0x04034b50 && signature !== 0x06054b50) {
    throw new ArchiveError('not_an_archive', 'This is not a ZIP archive: it does not begin like one')
  }
  const reader = new FileReader(windowReader(file, size, directoryWindowBytes))
  return fromRandomAccessReaderPromise(reader, size, { decodeStrings: false, autoClose: false }).catch(damaged)
}

const damaged = (error: Error): never => {
  if (error instanceof ArchiveError) throw error
  const [reason, message] = /encrypt/.test(error.message)
    ? (['encrypted', 'The archive is encrypted'] as const)
    : /size mismatch/.test(error.message)
      ? (['size_mismatch', 'The archive contradicts itself about the length of an entry'] as const)
      : /multi-disk/.test(error.message)
        ? (['damaged', 'This is one part of a split archive; join the parts first'] as const)
        : (['damaged', 'The archive is incomplete or damaged'] as const)
  throw new ArchiveError(reason, message, null, error)
}

class FileReader extends RandomAccessReader {
  readonly window: WindowReader

  constructor(window: WindowReader) {
    super()
    this.window = window
  }

  override read(buffer: Buffer, offset: number, length: number, position: number, done: (error: Error | null) => void) {
    this.window
      .read(position, length)
      .then((bytes) => {
        if (bytes.length < length) throw new Error('unexpected EOF')
        bytes.copy(buffer, offset)
      })
      .then(() => done(null), done)
  }

  override close(done: (error: Error | null) => void) {
    done(null)
  }
}

async function readEntries(zip: ZipFile, signal?: AbortSignal) {
  // The cursor stands at the central directory until the first entry is read; yauzl tells it nowhere else.
  const directoryStart = Number(zip.readEntryCursor)
  const found: Found[] = []
  const skipped: SkippedMember[] = []
  try {
    for await (const entry of zip.eachEntry()) {
      signal?.throwIfAborted()
      const name = zipEntryName(entry)
      requireHarmless(entry, name)
      const path = name
        .split('/')
        .filter((part) => part !== '' && part !== '.')
        .join('/')
      const ignored = isIgnored(name, path)
      const fault = ignored ? null : unusable(entry, path)
      if (fault) skipped.push({ path: path.replace(/\p{Cc}/gu, '\uFFFD').slice(0, shownCharsMax), reason: fault })
      found.push({
        path: ignored || fault ? '' : path,
        size: entry.uncompressedSize,
        compressedSize: entry.compressedSize,
        deflated: entry.compressionMethod === 8,
        crc32: entry.crc32,
        headerStart: entry.relativeOffsetOfLocalHeader,
      })
    }
  } catch (error) {
    if (signal?.aborted) throw error
    damaged(error as Error)
  }
  return { found, directoryStart, directoryEnd: Number(zip.readEntryCursor), skipped }
}

function requireHarmless(entry: Entry, name: string): void {
  if (entry.isEncrypted()) throw new ArchiveError('encrypted', 'The archive holds an encrypted entry', name)
  if (name.startsWith('/') || name.includes('\\') || /^[a-z]:/i.test(name) || name.split('/').includes('..')) {
    throw new ArchiveError('unsafe_path', 'The archive holds an entry whose path leads elsewhere', name)
  }
  const kind = (entry.externalFileAttributes >>> 16) & 0o170000
  if (kind !== 0 && kind !== 0o100000 && kind !== 0o040000) {
    throw new ArchiveError('special_entry', 'The archive holds a link or a device instead of a file', name)
  }
}

function isIgnored(name: string, path: string): boolean {
  const parts = path.split('/')
  return (
    path === '' || name.endsWith('/') || parts[0] === '__MACOSX' || /^(\.DS_Store|Thumbs\.db)$/i.test(parts.at(-1)!)
  )
}

const methodNames: Record<number, string> = {
  9: 'Deflate64',
  12: 'bzip2',
  14: 'LZMA',
  93: 'Zstandard',
  95: 'XZ',
  98: 'PPMd',
}

function unusable({ compressionMethod: method }: Entry, path: string): string | null {
  if (method === 0 || method === 8) return unusableName(path)
  return `its compression (${methodNames[method] ?? `method ${method}`}) is not supported; use Deflate`
}

/** Reads the local headers in the order of the file and refuses members that share bytes. */
async function locate(
  found: Found[],
  reader: WindowReader,
  directoryStart: number,
  signal?: AbortSignal,
): Promise<ZipPlace[]> {
  const byPosition = found.map((_, index) => index).sort((a, b) => found[a]!.headerStart - found[b]!.headerStart)
  const places: ZipPlace[] = new Array(found.length)
  for (const [order, index] of byPosition.entries()) {
    signal?.throwIfAborted()
    const { headerStart, ...member } = found[index]!
    const header = await reader.read(headerStart, 30)
    if (header.length < 30 || header.readUInt32LE(0) !== 0x04034b50) {
      throw new ArchiveError('damaged', 'The archive names an entry that is not where it should be', member.path)
    }
    if (header.readUInt16LE(6) & 1)
      throw new ArchiveError('encrypted', 'The archive holds an encrypted entry', member.path)
    const dataStart = headerStart + 30 + header.readUInt16LE(26) + header.readUInt16LE(28)
    const next = byPosition[order + 1]
    if (dataStart + member.compressedSize > (next === undefined ? directoryStart : found[next]!.headerStart)) {
      throw new ArchiveError('overlap', 'The archive holds entries that overlap', member.path)
    }
    places[index] = { ...member, dataStart }
  }
  return places
}

/** Announced lengths suffice here, because a member that yields another length is refused when it is read. */
function requireModest(places: ZipPlace[], totalBytes: number, ratio: number): void {
  const expanded = places.reduce((sum, place) => sum + place.size, 0)
  const compressed = places.reduce((sum, place) => sum + place.compressedSize, 0)
  if (expanded > totalBytes) {
    throw new ArchiveError('too_large', `The archive expands to ${expanded} bytes; there is room for ${totalBytes}`)
  }
  if (expanded > Math.max(ratioFreeBytes, ratio * compressed)) {
    throw new ArchiveError('ratio', `The archive expands to more than ${ratio} times its size, as archive bombs do`)
  }
}

/** Of entries with one name the first; no file where others need a folder; no resource forks beside their file. */
function choose(places: ZipPlace[], skipped: SkippedMember[]) {
  const named = places.filter(({ path }) => path !== '')
  const paths = new Set(named.map(({ path }) => path))
  const folders = foldersAmong(paths)
  const seen = new Set<string>()
  const chosen = named.filter(({ path }) => {
    const reason = seen.has(path)
      ? 'another entry has the same name'
      : folders.has(path)
        ? 'other entries lie in a folder of this name'
        : isResourceFork(path, paths)
          ? 'a resource fork of macOS'
          : null
    seen.add(path)
    if (reason) skipped.push({ path, reason })
    return reason === null
  })
  return { places: chosen, skipped }
}

/**
 * Those paths that others go through. With a slash behind each, what lies in a folder comes right after it in order: no
 * list of all folders, of which a hostile archive has five hundred per entry.
 */
function foldersAmong(paths: Set<string>): Set<string> {
  const ordered = Array.from(paths, (path) => `${path}/`).sort()
  return new Set(ordered.filter((path, index) => ordered[index + 1]?.startsWith(path)).map((path) => path.slice(0, -1)))
}

/** `._a.jpg` beside `a.jpg`. @source RFC 1740 (AppleDouble) */
function isResourceFork(path: string, paths: Set<string>): boolean {
  const at = path.lastIndexOf('/') + 1
  return path.startsWith('._', at) && paths.has(path.slice(0, at) + path.slice(at + 2))
}
