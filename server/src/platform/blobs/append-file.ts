import { createHash, type Hash } from 'node:crypto'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { badRequest, conflict, rangeNotSatisfiable } from '../errors.ts'
import { inBatches, namingFullStorage, writeBatches } from './content-batches.ts'
import { digestOf, digestOfFile } from './digest.ts'

export interface AppendOptions {
  /** One byte more throws `payload_too_large`. */
  maxBytes?: number
  /** The announced length; fewer bytes throw `bad_request` with `detail.expected`, more `payload_too_large`. */
  expectedBytes?: number
  signal?: AbortSignal
  /** The parts are nobody else's, so their memory is given back as they are written. */
  owned?: boolean
  /** Records the new offset; when it throws, the body is dropped again. Nobody else may append until it has ended. */
  commit?: (offset: number) => Promise<void>
}

/**
 * Files that grow by whole bodies in order: a body that breaks leaves the file as it was. The committed offset is the
 * caller's to record; what lies beyond it after a crash is cut off by the next append. A body is durable before
 * `commit` is called, the name of the file is not before it is adopted by the blob store.
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
  /** Removes the file, if it is still there, and what is remembered of it. */
  remove(path: string): Promise<void>
}

interface Progress {
  busy: boolean
  offset: number
  /** Null when bytes came before this process did. */
  hash: Hash | null
}

/** Remembers hashes and offsets in this process; one per server is enough. */
export function appendFiles(): AppendFiles {
  const known = new Map<string, Progress>()
  return {
    async append(path, offset, content, options = {}) {
      const progress = known.get(path) ?? { busy: false, offset, hash: offset === 0 ? createHash('sha256') : null }
      if (progress.busy) throw conflict('Another part of this upload is still arriving.')
      if (offset < progress.offset) throw rangeNotSatisfiable(undefined, { detail: { offset: progress.offset } })
      const hash = offset === progress.offset ? (progress.hash?.copy() ?? null) : null
      known.set(path, { ...progress, busy: true })
      try {
        const end = await appendBody(path, offset, content, hash, options)
        known.set(path, { busy: false, offset: end, hash })
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
    async remove(path) {
      known.delete(path)
      await rm(path, { force: true })
    },
  }
}

async function appendBody(
  path: string,
  offset: number,
  content: AsyncIterable<Uint8Array>,
  hash: Hash | null,
  { maxBytes, expectedBytes, signal, owned, commit }: AppendOptions,
): Promise<number> {
  const file = await openAt(path, offset)
  try {
    const limit = Math.min(maxBytes ?? Number.POSITIVE_INFINITY, expectedBytes ?? Number.POSITIVE_INFINITY)
    const batches = inBatches(content, { maxBytes: limit, signal })
    const size = await namingFullStorage(() =>
      writeBatches(file, batches, { position: offset, hash: hash ?? undefined, owned: owned ?? false }),
    )
    if (expectedBytes !== undefined && size < expectedBytes) {
      throw badRequest('The body is shorter than announced.', { detail: { expected: expectedBytes, received: size } })
    }
    await commit?.(offset + size)
    return offset + size
  } catch (error) {
    await file.truncate(offset)
    throw error
  } finally {
    await file.close()
  }
}

async function openAt(path: string, offset: number): Promise<FileHandle> {
  const file = await open(path, offset === 0 ? 'w' : 'r+', 0o600)
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
