import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'

export type DigestAlgorithm = 'sha256' | 'sha512'

const hexLengths: Record<DigestAlgorithm, number> = { sha256: 64, sha512: 128 }

/** The algorithm of a well-formed digest `sha256:<64 hex>` or `sha512:<128 hex>` (lower case), else null. @source OCI Image Specification 1.1 "Digests" */
export function digestAlgorithm(digest: string): DigestAlgorithm | null {
  const match = /^(sha256|sha512):([0-9a-f]+)$/.exec(digest)
  const algorithm = match?.[1] as DigestAlgorithm | undefined
  return algorithm && match?.[2]?.length === hexLengths[algorithm] ? algorithm : null
}

export function digestOfBytes(bytes: Uint8Array, algorithm: DigestAlgorithm = 'sha256'): string {
  return `${algorithm}:${createHash(algorithm).update(bytes).digest('hex')}`
}

/** Reads the whole file once. */
export async function digestOfFileBy(path: string, algorithm: DigestAlgorithm): Promise<string> {
  const hash = createHash(algorithm)
  for await (const part of createReadStream(path, { highWaterMark: 512 * 1024 })) hash.update(part)
  return `${algorithm}:${hash.digest('hex')}`
}
