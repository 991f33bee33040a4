import type { Hash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { PlatformError, payloadTooLarge } from '../errors.ts'

/** Large enough that system calls no longer cost, small enough to hold two per upload. */
const batchSizeBytes = 1024 * 1024
const firstSyncBytes = 4 * 1024 * 1024
const syncMaxBytes = 32 * 1024 * 1024
/** Linux writes at most this many parts in one call (IOV_MAX). */
const batchParts = 1024

export interface ContentLimits {
  /** One byte more throws `payload_too_large`, before it is handed on. */
  maxBytes?: number
  /** Asked before that for a higher limit, with the length that has come; what it returns is the limit from then on. */
  extend?: ((bytes: number) => Promise<number>) | undefined
  signal?: AbortSignal
}

/**
 * Collects a stream into batches of about 1 MiB, unchanged and uncopied.
 *
 * A source that is refused half-way is left alone, neither drained nor destroyed: an HTTP request must stay open to
 * carry the answer, so whoever opened the source closes it.
 */
export async function* inBatches(
  content: AsyncIterable<Uint8Array>,
  { maxBytes = Number.POSITIVE_INFINITY, extend, signal }: ContentLimits = {},
): AsyncGenerator<Uint8Array[]> {
  const source = content[Symbol.asyncIterator]()
  let batch: Uint8Array[] = []
  let batchBytes = 0
  let total = 0
  let limit = maxBytes
  while (true) {
    const { done, value } = await nextUnlessAborted(source, signal)
    if (done) break
    total += value.length
    if (total > limit && extend) limit = await extend(total)
    if (total > limit) throw payloadTooLarge(undefined, { detail: { max_bytes: limit } })
    batch.push(value)
    batchBytes += value.length
    if (batchBytes < batchSizeBytes && batch.length < batchParts) continue
    yield batch
    batch = []
    batchBytes = 0
  }
  if (batchBytes > 0) yield batch
}

/** The next item, or the signal's reason as soon as it is aborted, however long the source stays silent. */
export function nextUnlessAborted<T>(source: AsyncIterator<T>, signal?: AbortSignal): Promise<IteratorResult<T>> {
  if (!signal) return source.next()
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) return abort()
    signal.addEventListener('abort', abort, { once: true })
    source
      .next()
      .then(resolve, reject)
      .finally(() => signal.removeEventListener('abort', abort))
  })
}

export interface WriteOptions {
  position?: number
  hash?: Hash
  /** The parts are nobody else's: their memory is given back as soon as they are written, and they are empty then. */
  owned?: boolean
  /** The caller sees to it that the last bytes become durable. */
  leaveLastSync?: boolean
}

/**
 * Writes batches from `position` on, hashing one and receiving the next while one is written; returns the length once
 * the bytes are durable. The disk is kept busy by syncing along the way: a third faster than one sync at the end, which
 * has at most half of the bytes left to do.
 */
export async function writeBatches(
  file: FileHandle,
  batches: AsyncIterable<Uint8Array[]>,
  { position = 0, hash, owned = false, leaveLastSync = false }: WriteOptions = {},
): Promise<number> {
  let end = position
  let synced = position
  let writing: Promise<void> = Promise.resolve()
  let written: Uint8Array[] = []
  let syncing: Promise<void> = Promise.resolve()
  try {
    for await (const batch of batches) {
      await writing
      if (owned) releaseMemory(written)
      written = batch
      writing = writeFully(file, batch, end)
      // A failure is seen at the next await; until then it must not count as unhandled.
      writing.catch(() => {})
      for (const part of batch) {
        hash?.update(part)
        end += part.length
      }
      if (end - synced < Math.min(Math.max(synced - position, firstSyncBytes), syncMaxBytes)) continue
      await syncing
      synced = end
      syncing = file.datasync()
      syncing.catch(() => {})
    }
    await writing
    await syncing
    if (!leaveLastSync) await file.datasync()
  } finally {
    // The caller closes the file next: nothing may still be on its way.
    await Promise.allSettled([writing, syncing])
  }
  return end - position
}

/** Left to the collector, 1 GiB of them costs it as much time as hashing does. */
function releaseMemory(parts: Uint8Array[]): void {
  for (const { buffer, byteLength } of parts) {
    // A part of a larger buffer, such as Node.js's own pool, is not alone in it.
    if (buffer instanceof ArrayBuffer && byteLength === buffer.byteLength) buffer.transfer(0)
  }
}

async function writeFully(file: FileHandle, batch: Uint8Array[], position: number): Promise<void> {
  const length = batch.reduce((sum, part) => sum + part.length, 0)
  const { bytesWritten } = await file.writev(batch, position)
  if (bytesWritten === length) return
  // A short write means that the disk is filling up: the rest meets the reason.
  const rest = Buffer.concat(batch).subarray(bytesWritten)
  let done = 0
  while (done < rest.length) {
    done += (await file.write(rest, done, rest.length - done, position + bytesWritten + done)).bytesWritten
  }
}

/** Runs a write and turns a full disk or quota into `insufficient_storage` with what to do about it. */
export async function namingFullStorage<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    if (code !== 'ENOSPC' && code !== 'EDQUOT') throw error
    const remedy = 'Delete what is no longer needed, or give the data folder a larger disk, then try again.'
    throw new PlatformError('insufficient_storage', `There is no room left on the storage. ${remedy}`, { cause: error })
  }
}
