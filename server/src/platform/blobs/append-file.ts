import { createHash, type Hash } from 'node:crypto'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { badRequest, conflict, rangeNotSatisfiable } from '../errors.ts'
import { inBatches, namingFullStorage, writeBatches } from './content-batches.ts'
import { digestOf, digestOfFile } from './digest.ts'

export interface AppendOptions {
  /** One byte more throws `payload_too_large`. */
  maxBytes?: number
  /** Asked before that for a higher limit, with the length of this body so far. */
  extend?: ((bytes: number) => Promise<number>) | undefined
  /** The announced length; fewer bytes throw `bad_request` with `detail.expected`, more `payload_too_large`. */
  expectedBytes?: number
  signal?: AbortSignal
  /** The parts are nobody else's, so their memory is given back as they are written. */
  owned?: boolean
  /** Records the new offset; when it throws, the body is dropped again. Nobody else may append until it has ended. */
  commit?: (offset: number) => Promise<void>
  /** Does not wait for the disk: the bytes survive the end of the process, but a power cut only after `settled`. */
  settleLater?: boolean
}

/**
 * Files that grow by whole bodies in order: a body that breaks leaves the file as it was. The committed offset is the
 * caller's to record; what lies beyond it after a crash is cut off by the next append. A body is durable before
 * `commit` is called, unless `settleLater` says otherwise; the name of the file is not before it is adopted by the blob
 * store.
 * @source contract B6.2, B6.4, B9.9
 */
export interface AppendFiles {
  /**
   * Appends one body at `offset`, the committed length (0 makes the file), and returns the new one. Throws `conflict`
   * while another body is under way and `range_not_satisfiable` with `detail.offset` when more was committed meanwhile.
   */
  append(path: string, offset: number, content: AsyncIterable<Uint8Array>, options?: AppendOptions): Promise<number>
  /** The digest of the first `size` bytes: at hand when all came through this process, else read from the file. */
  digest(path: string, size: number, options?: { signal?: AbortSignal }): Promise<string>
  /**
   * Whether the first `size` bytes are known to be durable, once what is under way to the disk has arrived; false when the
   * last of them came through another process. Rejects when the disk failed: the file is gone then.
   */
  settled(path: string, size: number): Promise<boolean>
  /** Removes the file, if it is still there, and what is remembered of it. */
  remove(path: string): Promise<void>
}

interface Progress {
  busy: boolean
  offset: number
  /** Null when bytes came before this process did. */
  hash: Hash | null
  /** Ends when all bytes so far are durable; null when bytes came before this process did and none since. */
  settling: Promise<void> | null
}

/** Remembers hashes and offsets in this process; one per server is enough. */
export function appendFiles(): AppendFiles {
  const known = new Map<string, Progress>()
  return {
    async append(path, offset, content, options = {}) {
      const progress = known.get(path) ?? unknownProgress(offset)
      if (progress.busy) throw conflict('Another part of this upload is still arriving.')
      if (offset < progress.offset) throw rangeNotSatisfiable(undefined, { detail: { offset: progress.offset } })
      const hash = offset === progress.offset ? (progress.hash?.copy() ?? null) : null
      known.set(path, { ...progress, busy: true })
      try {
        const { end, settling } = await appendBody(path, offset, content, hash, options)
        known.set(path, { busy: false, offset: end, hash, settling: both(progress.settling, settling) })
        return end
      } catch (error) {
        known.set(path, { ...progress, busy: false })
        throw error
      }
    },
    async digest(path, size, options) {
      const progress = known.get(path)
      if (progress?.hash && progress.offset === size) return digestOf(progress.hash.copy())
      return digestOfFile(path, { size, ...options })
    },
    async settled(path, size) {
      const { offset, settling } = known.get(path) ?? unknownProgress(0)
      if (offset !== size || settling === null) return false
      await namingFullStorage(() => settling)
      return true
    },
    async remove(path) {
      known.delete(path)
      await rm(path, { force: true })
    },
  }
}

const unknownProgress = (offset: number): Progress => ({
  busy: false,
  offset,
  hash: offset === 0 ? createHash('sha256') : null,
  settling: offset === 0 ? Promise.resolve() : null,
})

/** Ends when both have; a failure is told to whoever asks. */
function both(first: Promise<void> | null, second: Promise<void>): Promise<void> {
  const all = Promise.all([first, second]).then(() => undefined)
  all.catch(() => {})
  return all
}

async function appendBody(
  path: string,
  offset: number,
  content: AsyncIterable<Uint8Array>,
  hash: Hash | null,
  { maxBytes, extend, expectedBytes, signal, owned = false, commit, settleLater = false }: AppendOptions,
): Promise<{ end: number; settling: Promise<void> }> {
  const file = await openAt(path, offset)
  try {
    const announced = expectedBytes ?? Number.POSITIVE_INFINITY
    const batches = inBatches(content, {
      maxBytes: Math.min(maxBytes ?? Number.POSITIVE_INFINITY, announced),
      extend: extend && (async (bytes) => (bytes > announced ? announced : Math.min(await extend(bytes), announced))),
      signal,
    })
    const size = await namingFullStorage(() =>
      writeBatches(file, batches, { position: offset, hash: hash ?? undefined, owned, leaveLastSync: settleLater }),
    )
    if (expectedBytes !== undefined && size < expectedBytes) {
      throw badRequest('The body is shorter than announced.', { detail: { expected: expectedBytes, received: size } })
    }
    await commit?.(offset + size)
    return { end: offset + size, settling: settleLater ? settle(file, path) : file.close() }
  } catch (error) {
    await file.truncate(offset).finally(() => file.close())
    throw error
  }
}

/** Bytes that the disk did not take must not be built upon, by no process: the file goes. */
async function settle(file: FileHandle, path: string): Promise<void> {
  try {
    await file.datasync().finally(() => file.close())
  } catch (error) {
    await rm(path, { force: true })
    throw error
  }
}

async function openAt(path: string, offset: number): Promise<FileHandle> {
  if (offset === 0) return open(path, 'w', 0o600)
  const file = await open(path, 'r+')
  try {
    const { size } = await file.stat()
    if (size < offset) throw new Error(`${size} bytes are left of ${offset} that were committed`)
    if (size > offset) await file.truncate(offset)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}
