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

export interface PutOptions {
  /** `sha256:<hex>` the content must have; otherwise nothing is kept and `digest_mismatch` is thrown. */
  expected?: string
  /** Largest length in bytes; one byte more throws `payload_too_large` and keeps nothing. */
  maxBytes?: number
  signal?: AbortSignal
}

/**
 * Immutable content addressed by its SHA-256. The same bytes are kept once, whoever puts them; who may read them
 * is the business of the rows that refer to them, never of the store.
 *
 * A blob becomes visible at once and whole, after its bytes are durable: a crash leaves no half blob.
 * @source house.md §1 (platform/blobs), OCI Image Specification 1.1 "Digests"
 */
export interface BlobStore {
  /** Streams content in; never holds more than a few MiB in memory. */
  put(content: AsyncIterable<Uint8Array>, options?: PutOptions): Promise<BlobInfo>
  /** Takes over a file of ours (same file system: no copy). Reads it once for its digest unless `digest` is known. */
  adopt(path: string, options?: { digest?: string; expected?: string }): Promise<BlobInfo>
  /** Streams content out. Throws `not_found` for an unknown digest. */
  open(digest: string, range?: ByteRange): Promise<Readable>
  /** Length, or null for an unknown digest. */
  stat(digest: string): Promise<BlobInfo | null>
  /** Makes the content appear as a read-only file at `path` (hard link where possible, copy otherwise). */
  materialise(digest: string, path: string): Promise<void>
  /** Removes content; unknown digests are no error. */
  delete(digest: string): Promise<void>
  /** A fresh private folder on the store's own file system, so that `adopt` needs no copy. The caller removes it. */
  temporaryFolder(purpose: string): Promise<string>
  /** Throws when the store can't be written, with the reason; for /readyz and health. */
  check(): Promise<void>
}
