import { createHash, randomBytes, randomInt } from 'node:crypto'

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const tokenPattern = /^mlr_[0-9A-Za-z]{10}_[\w-]{43}$/

export interface TokenSecret {
  /** What the client sends as its password; shown once. */
  token: string
  /** The part that may be shown again. */
  prefix: string
}

/** 256 random bits behind a short public id. @source contract B9.2 */
export function newTokenSecret(): TokenSecret {
  const prefix = `mlr_${Array.from({ length: 10 }, () => base62[randomInt(base62.length)]).join('')}`
  return { token: `${prefix}_${randomBytes(32).toString('base64url')}`, prefix }
}

/** What is stored of a token, or null for a text that is none. The secret is random, so a plain hash is enough. */
export function hashOfToken(token: string): Buffer | null {
  return tokenPattern.test(token) ? createHash('sha256').update(token).digest() : null
}

/** The password of an `Authorization: Basic` header with any user name but an empty one, else null. @source RFC 7617, contract B9.2 */
export function basicPassword(header: string | undefined): string | null {
  const encoded = /^Basic +([\w+/=-]+) *$/i.exec(header ?? '')?.[1]
  if (!encoded) return null
  const text = Buffer.from(encoded, 'base64').toString('utf8')
  const at = text.indexOf(':')
  return at > 0 ? text.slice(at + 1) : null
}
