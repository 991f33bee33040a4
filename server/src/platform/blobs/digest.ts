import { badRequest } from '../errors.ts'

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
