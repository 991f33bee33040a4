import { createHash } from 'node:crypto'
import { badRequest } from '../../platform/errors.ts'

/**
 * The SHA-256 in a `Content-Digest` header, or null when there is none; other algorithms are left alone. Throws
 * `bad_request` for a value that is no digest. @source RFC 9530 §2
 */
export function contentDigest(header: string | undefined): Buffer | null {
  const member = header?.split(',').find((part) => /^\s*sha-256\s*=/i.test(part))
  if (!member) return null
  const bytes = Buffer.from(/^[^=]*=\s*:([A-Za-z0-9+/=]*):/.exec(member)?.[1] ?? '', 'base64')
  if (bytes.length !== 32) throw badRequest('Content-Digest holds no SHA-256: it reads sha-256=:<base64>:.')
  return bytes
}

/** The content, which ends in a `bad_request` when it has another digest than announced. */
export function verified(content: AsyncIterable<Uint8Array>, announced: Buffer | null): AsyncIterable<Uint8Array> {
  return announced ? compared(content, announced) : content
}

async function* compared(content: AsyncIterable<Uint8Array>, announced: Buffer): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  for await (const part of content) {
    hash.update(part)
    yield part
  }
  const actual = hash.digest()
  if (actual.equals(announced)) return
  const detail = { reason: 'digest_mismatch', expected: announced.toString('hex'), actual: actual.toString('hex') }
  throw badRequest('The chunk was damaged on its way: it has another digest than Content-Digest says.', { detail })
}
