import { createWriteStream } from 'node:fs'
import { utimes, writeFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createZstdDecompress } from 'node:zlib'
import { extract, type Header } from 'tar-stream'
import { namingFullStorage, nextUnlessAborted } from '../blobs/content-batches.ts'
import { ArchiveError } from './archive-error.ts'
import { type TarTarget, tarTarget } from './tar-target.ts'

export interface TarLimits {
  /** Largest length of the unpacked archive, in bytes, counted as they come. */
  totalBytes: number
  /** 1 000 000 unless told. */
  entries?: number
}

export interface ExtractTarOptions {
  signal?: AbortSignal
  /** After each entry, with its path relative to the folder. */
  onEntry?: (path: string, size: number) => void
}

const smallBytes = 1024 * 1024

/**
 * Unpacks an untrusted tar archive (plain, gzip or zstd, by signature) into a folder that nobody else writes to, as a
 * layer over what is there: whiteouts remove it. Nothing is written outside the folder nor through a link, and links
 * never lead out: absolute ones are made relative to the folder. Owners and set-id bits are dropped. Throws
 * `ArchiveError` and may leave a part behind. @source OCI Image Specification 1.1 "Image Layer Filesystem Changeset"
 */
export async function extractTar(
  archived: AsyncIterable<Uint8Array>,
  folder: string,
  { totalBytes, entries = 1_000_000 }: TarLimits,
  { signal, onEntry }: ExtractTarOptions = {},
): Promise<void> {
  const target = tarTarget(folder)
  const archive = extract()
  const feeding = pipeline(await decompressed(archived, signal), bounded(totalBytes), archive)
  feeding.catch(() => {})
  let count = 0
  try {
    for await (const entry of archive) {
      if (++count > entries) throw new ArchiveError('too_many_entries', `The archive has more than ${entries} entries`)
      const content = entry as AsyncIterable<Buffer>
      const path = await namingFullStorage(() => unpack(target, entry.header, content))
      entry.resume()
      onEntry?.(path, entry.header.size ?? 0)
    }
    await feeding
  } catch (error) {
    archive.destroy()
    // What broke the source also ends the entries, but says less.
    await feeding.then(
      () => refuse(error),
      (cause) => refuse(cause.code === 'ERR_STREAM_PREMATURE_CLOSE' ? error : cause),
    )
  }
}

function refuse(error: unknown): never {
  const { code, message } = error as NodeJS.ErrnoException
  const damage = /^Z_|^ZSTD_|ERR_ZLIB/.test(code ?? '') || /tar header|Unexpected end of data|Invalid/.test(message)
  throw damage ? new ArchiveError('damaged', 'The archive is incomplete or damaged', null, error) : error
}

async function decompressed(content: AsyncIterable<Uint8Array>, signal?: AbortSignal): Promise<Readable> {
  const source = content[Symbol.asyncIterator]()
  const next = () => nextUnlessAborted(source, signal)
  let start: Buffer = Buffer.alloc(0)
  while (start.length < 4) {
    const { done, value } = await next()
    if (done) break
    start = Buffer.concat([start, value])
  }
  const whole = Readable.from(
    (async function* () {
      if (start.length > 0) yield start
      for (let part = await next(); !part.done; part = await next()) yield part.value
    })(),
    { objectMode: false },
  )
  const filter = decompressorFor(start)
  if (!filter) return whole
  whole.on('error', (error) => filter.destroy(error))
  return whole.pipe(filter)
}

function decompressorFor(start: Buffer) {
  if (start.length >= 2 && start.readUInt16BE(0) === 0x1f8b) return createGunzip({ chunkSize: 256 * 1024 })
  if (start.length >= 4 && start.readUInt32BE(0) === 0x28b52ffd) return createZstdDecompress()
  return null
}

function bounded(totalBytes: number) {
  return async function* (source: AsyncIterable<Buffer>) {
    let total = 0
    for await (const part of source) {
      total += part.length
      if (total > totalBytes)
        throw new ArchiveError('too_large', `The archive unpacks to more than ${totalBytes} bytes`)
      yield part
    }
  }
}

async function unpack(target: TarTarget, header: Header, content: AsyncIterable<Buffer>): Promise<string> {
  const name = header.name
  const path = target.pathOf(name)
  if (await target.whiteOut(path)) return path
  switch (header.type) {
    case 'directory':
      await target.folder(path, header.mode)
      break
    case 'file':
    case 'contiguous-file':
      await writeMember(await target.vacate(path), header, content)
      break
    case 'symlink':
      await target.symlink(path, header.linkname ?? '')
      break
    case 'link':
      await target.hardLink(path, header.linkname ?? '')
      break
    default:
      throw new ArchiveError('special_entry', 'The archive holds a device or a pipe instead of a file', name)
  }
  return path
}

async function writeMember(path: string, header: Header, content: AsyncIterable<Buffer>): Promise<void> {
  const mode = ((header.mode ?? 0o644) & 0o777) | 0o600
  // 'wx' refuses whatever may be there, a link above all.
  if ((header.size ?? 0) <= smallBytes) await writeFile(path, await buffer(content), { mode, flag: 'wx' })
  else await pipeline(content, createWriteStream(path, { mode, flags: 'wx', highWaterMark: smallBytes }))
  // Python takes its compiled files for stale when the time of the source differs.
  if (header.mtime) await utimes(path, header.mtime, header.mtime)
}
