import { createHash, type Hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { badRequest } from '../errors.ts'

const progressBytes = 8 * 1024 * 1024
const sha256Digest = /^sha256:([0-9a-f]{64})$/

/**
 * The 64 hexadecimal digits of `sha256:<hex>`, and nothing else: whatever passes is safe as a file name.
 * Throws `bad_request` for anything else. @source OCI Image Specification 1.1 "Digests"
 */
export function hexOfDigest(digest: string): string {
  const hex = sha256Digest.exec(digest)?.[1]
  if (!hex) throw badRequest('A digest is sha256: and 64 lower-case hexadecimal digits.', { detail: { digest } })
  return hex
}

/** Throws `bad_request` with `detail.reason` `digest_mismatch` unless both digests are the same. */
export function requireDigest(actual: string, expected: string | undefined): void {
  if (expected === undefined || actual === expected) return
  throw badRequest(
    'The content does not have the digest that was announced: it was damaged or is not what you meant.',
    {
      detail: { reason: 'digest_mismatch', expected, actual },
    },
  )
}

export const digestOf = (hash: Hash): string => `sha256:${hash.digest('hex')}`

export interface DigestOptions {
  /** Bytes from the start; absent means all. */
  size?: number
  signal?: AbortSignal
  /** Called with the bytes read so far, about every 8 MiB. */
  onProgress?: (bytes: number) => void
}

/** Reads a file once, at about 1.5 GiB/s, for its SHA-256 digest. */
export async function digestOfFile(path: string, { size, signal, onProgress }: DigestOptions = {}): Promise<string> {
  const hash = createHash('sha256')
  if (size === 0) return digestOf(hash)
  const end = size === undefined ? undefined : size - 1
  let read = 0
  for await (const part of createReadStream(path, { end, signal, highWaterMark: 512 * 1024 })) {
    hash.update(part)
    const before = read
    read += part.length
    if (Math.floor(read / progressBytes) > Math.floor(before / progressBytes)) onProgress?.(read)
  }
  return digestOf(hash)
}
