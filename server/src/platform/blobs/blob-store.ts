import type { Readable } from 'node:stream'

/** An inclusive byte range, as HTTP counts: `{ start: 0, end: 0 }` is the first byte. */
export interface ByteRange {
  start: number
  end: number
}

/** What the store keeps of a finished blob. */
export interface BlobInfo {
  /** `sha256:` and 64 lower-case hexadecimal digits. */
  digest: string
  /** Length in bytes. */
  size: number
}

/** A blob as a sweep sees it. */
export interface StoredBlob extends BlobInfo {
  /** When it was put or used last. */
  usedAt: Date
}

export interface PutOptions {
  /** `sha256:<hex>` the content must have; otherwise nothing is kept and `digest_mismatch` is thrown. */
  expected?: string
  /** Largest length in bytes; one byte more throws `payload_too_large` and keeps nothing. */
  maxBytes?: number
  /** Asked before that for a higher limit, with the length that has come. */
  extend?: ((bytes: number) => Promise<number>) | undefined
  /** The parts are nobody else's, so their memory is given back as they are written: a fifth less work for a long body. */
  owned?: boolean
  signal?: AbortSignal
}

export interface AdoptOptions {
  digest?: string
  expected?: string
  isDurable?: boolean
}

/**
 * A blob held open: it can be read to its end even when it is deleted meanwhile. Who opened it closes it.
 * For streams use `BlobStore.open`; this is for those that bring their own buffers, such as `sendBlob`.
 */
export interface BlobReader {
  /** Length in bytes of the whole blob. */
  readonly size: number
  /** Fills `into` with what lies at `position` and after; returns how many bytes that were, fewer only at the end. */
  read(into: Uint8Array, position: number): Promise<number>
  close(): Promise<void>
}

/**
 * Immutable content addressed by its SHA-256. The same bytes are kept once, whoever puts them; who may read them
 * is the business of the rows that refer to them, never of the store.
 *
 * A blob becomes visible at once and whole, after its bytes are durable: a crash leaves no half blob. When `put` or
 * `adopt` has returned, bytes and name survive a power cut, and a sweep takes the content for used at that moment.
 * @source house.md §1 (platform/blobs), OCI Image Specification 1.1 "Digests"
 */
export interface BlobStore {
  /** Streams content in; never holds more than a few MiB in memory. */
  put(content: AsyncIterable<Uint8Array>, options?: PutOptions): Promise<BlobInfo>
  /**
   * Takes over a file of ours (same file system: no copy). Reads it once for its digest unless `digest` is known; waits
   * for the disk unless `isDurable` says that the bytes have survived a power cut since they were written last.
   */
  adopt(path: string, options?: AdoptOptions): Promise<BlobInfo>
  /** Streams content out. Throws `not_found` for an unknown digest. */
  open(digest: string, range?: ByteRange): Promise<Readable>
  /** Holds a blob open. Throws `not_found` for an unknown digest. */
  reader(digest: string): Promise<BlobReader>
  /** Length, or null for an unknown digest. */
  stat(digest: string): Promise<BlobInfo | null>
  /**
   * The same, and from now on the content counts as just put: for those that come to refer to content they found
   * rather than brought. A sweep then leaves it alone until their row is there.
   */
  use(digest: string): Promise<BlobInfo | null>
  /** Makes the content appear as a read-only file at `path` (hard link where possible, copy otherwise). */
  materialise(digest: string, path: string): Promise<void>
  /** Removes content; unknown digests are no error. */
  delete(digest: string): Promise<void>
  /** Everything there is, in batches and in no order; what comes and goes meanwhile may be missing. */
  list(): AsyncIterable<StoredBlob[]>
  /** Removes content that was neither put nor used since `before`; false when it was, be it at this very moment. */
  deleteUnused(digest: string, before: Date): Promise<boolean>
  /** A fresh private folder on the store's own file system, so that `adopt` needs no copy. The caller removes it. */
  temporaryFolder(purpose: string): Promise<string>
  /** Throws when the store can't be written, with the reason; for /readyz and health. */
  check(): Promise<void>
}
