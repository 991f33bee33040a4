import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { chmod, type FileHandle, link, lstat, mkdir, open, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { notFound, rangeNotSatisfiable } from '../errors.ts'
import { listBlobs, putBack, removeUnused } from './blob-removal.ts'
import type { AdoptOptions, BlobInfo, BlobReader, BlobStore, ByteRange, PutOptions } from './blob-store.ts'
import { inBatches, namingFullStorage, writeBatches } from './content-batches.ts'
import { digestOf, digestOfFile, hexOfDigest, requireDigest } from './digest.ts'
import { copyWhole, moveDurably } from './durable-files.ts'
import { type TemporaryFiles, temporaryFiles } from './temporary-files.ts'

const readSizeBytes = 512 * 1024
/** Owner only, and read-only: a blob that a job got as a hard link must not be written through it. */
const blobMode = 0o400

export interface FileBlobStoreOptions {
  folder: string
  log?: { info(fields: object, message: string): void }
}

/**
 * The store on a file system: `<folder>/sha256/ab/<hex>`, with temporary files in `<folder>/tmp`; the time of change of
 * a blob is when it was put or used last. Several servers may share the folder. Temporary files and folders of a process go when the next one starts after its death.
 */
export async function fileBlobStore({ folder, log }: FileBlobStoreOptions): Promise<BlobStore> {
  await mkdir(join(folder, 'sha256'), { recursive: true, mode: 0o700 })
  const temporary = await temporaryFiles(join(folder, 'tmp'), log)
  const pathOf = (digest: string) => {
    const hex = hexOfDigest(digest)
    return join(folder, 'sha256', hex.slice(0, 2), hex)
  }
  const aside = join(folder, 'removing')
  await putBack(aside, pathOf)
  return {
    put: (content, options) => putContent(content, options ?? {}, temporary, pathOf),
    adopt: (path, options) => adoptFile(path, options ?? {}, temporary, pathOf),
    open: (digest, range) => openBlob(digest, pathOf(digest), range),
    reader: (digest) => openReader(digest, pathOf(digest)),
    stat: (digest) => statBlob(digest, pathOf(digest)),
    use: async (digest) => ((await markUsed(pathOf(digest))) ? statBlob(digest, pathOf(digest)) : null),
    materialise: (digest, path) => materialiseBlob(digest, pathOf(digest), path),
    delete: (digest) => rm(pathOf(digest), { force: true }),
    list: () => listBlobs(join(folder, 'sha256')),
    deleteUnused: (digest, before) => removeUnused(pathOf(digest), join(aside, hexOfDigest(digest)), before),
    temporaryFolder: temporary.folder,
    check: () => checkWritable(temporary),
  }
}

type PathOf = (digest: string) => string

async function putContent(
  content: AsyncIterable<Uint8Array>,
  { expected, maxBytes, extend, owned, signal }: PutOptions,
  temporary: TemporaryFiles,
  pathOf: PathOf,
): Promise<BlobInfo> {
  if (expected !== undefined) hexOfDigest(expected)
  const batches = inBatches(content, { maxBytes, extend, signal })
  const start = [(await batches.next()).value, (await batches.next()).value].filter((batch) => batch !== undefined)
  if (start.length < 2) return putSmall(start[0] ?? [], expected, temporary, pathOf)
  const hash = createHash('sha256')
  const path = temporary.path()
  return keepOrRemove(path, async (file) => {
    const size = await writeBatches(file, resumed(start, batches), { hash, owned: owned ?? false })
    signal?.throwIfAborted()
    return publish(path, { digest: digestOf(hash), size }, expected, pathOf)
  })
}

/** Small content is known whole before a byte is written: what is there already, or is wrong, costs no file. */
async function putSmall(
  parts: Uint8Array[],
  expected: string | undefined,
  temporary: TemporaryFiles,
  pathOf: PathOf,
): Promise<BlobInfo> {
  const bytes = parts.length === 1 ? parts[0]! : Buffer.concat(parts)
  const info = { digest: digestOf(createHash('sha256').update(bytes)), size: bytes.length }
  requireDigest(info.digest, expected)
  if (await markUsed(pathOf(info.digest))) return info
  const path = temporary.path()
  return keepOrRemove(path, async (file) => {
    await file.writeFile(bytes)
    await file.datasync()
    return publish(path, info, expected, pathOf)
  })
}

async function* resumed<T>(start: T[], rest: AsyncIterable<T>): AsyncGenerator<T> {
  yield* start
  yield* rest
}

async function keepOrRemove(path: string, write: (file: FileHandle) => Promise<BlobInfo>): Promise<BlobInfo> {
  return namingFullStorage(async () => {
    const file = await open(path, 'wx', blobMode)
    try {
      return await write(file)
    } catch (error) {
      await rm(path, { force: true })
      throw error
    } finally {
      await file.close()
    }
  })
}

/** Makes a complete, durable file visible. */
async function publish(path: string, info: BlobInfo, expected: string | undefined, pathOf: PathOf): Promise<BlobInfo> {
  requireDigest(info.digest, expected)
  await moveDurably(path, pathOf(info.digest))
  return info
}

async function adoptFile(
  path: string,
  { digest: known, expected, isDurable = false }: AdoptOptions,
  temporary: TemporaryFiles,
  pathOf: PathOf,
): Promise<BlobInfo> {
  const digest = known ?? (await digestOfFile(path))
  requireDigest(digest, expected)
  const info = { digest, size: isDurable ? (await stat(path)).size : await syncFile(path) }
  if (await markUsed(pathOf(digest))) {
    await rm(path)
    return info
  }
  await Promise.all([chmod(path, blobMode), markUsed(path)])
  await moveDurably(path, pathOf(info.digest)).catch(async (error) => {
    if (error.code !== 'EXDEV') throw error
    await putContent(
      createReadStream(path, { highWaterMark: readSizeBytes }),
      { expected: info.digest },
      temporary,
      pathOf,
    )
    await rm(path)
  })
  return info
}

/** Makes what a file holds durable; returns its length. */
async function syncFile(path: string): Promise<number> {
  const file = await open(path, 'r')
  try {
    await file.datasync()
    return (await file.stat()).size
  } finally {
    await file.close()
  }
}

async function openBlob(digest: string, path: string, range?: ByteRange) {
  if (range && !(range.start >= 0 && range.start <= range.end)) throw rangeNotSatisfiable()
  const file = await openFile(digest, path)
  return file.createReadStream({ ...range, highWaterMark: readSizeBytes })
}

async function openReader(digest: string, path: string): Promise<BlobReader> {
  const file = await openFile(digest, path)
  try {
    const { size } = await file.stat()
    return {
      size,
      async read(into, position) {
        let filled = 0
        while (filled < into.length) {
          const { bytesRead } = await file.read(into, filled, into.length - filled, position + filled)
          if (bytesRead === 0) break
          filled += bytesRead
        }
        return filled
      },
      close: () => file.close(),
    }
  } catch (error) {
    await file.close()
    throw error
  }
}

function openFile(digest: string, path: string): Promise<FileHandle> {
  return open(path, 'r').catch((error) => {
    throw error.code === 'ENOENT' ? unknownBlob(digest) : error
  })
}

/** Whether there is a file; if so, it counts as put just now, so that no sweep takes it. */
async function markUsed(path: string): Promise<boolean> {
  const now = new Date()
  try {
    await utimes(path, now, now)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

async function statBlob(digest: string, path: string): Promise<BlobInfo | null> {
  try {
    return { digest, size: (await stat(path)).size }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

async function materialiseBlob(digest: string, blob: string, path: string): Promise<void> {
  if (!(await statBlob(digest, blob))) throw unknownBlob(digest)
  if (await lstat(path).catch(() => null)) await rm(path)
  try {
    await link(blob, path)
  } catch (error) {
    if (!['EXDEV', 'EMLINK', 'EPERM', 'ENOTSUP'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    await copyWhole(blob, path)
  }
}

async function checkWritable(temporary: TemporaryFiles): Promise<void> {
  const path = temporary.path()
  await namingFullStorage(async () => {
    const file = await open(path, 'wx', 0o600)
    try {
      await file.writeFile('writable?')
      await file.datasync()
    } finally {
      await file.close()
      await rm(path, { force: true })
    }
  })
}

const unknownBlob = (digest: string) => notFound('There is no content of this digest.', { detail: { digest } })
