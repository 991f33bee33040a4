import { createHmac } from 'node:crypto'
import { EncryptJWT, jwtDecrypt, jwtVerify, SignJWT } from 'jose'

const audience = 'platform-mlops:auth'
const sealAudience = 'platform-mlops:seal'

/** Signs and checks the tokens of logins. */
export interface TokenSigner {
  sign(token: { userId: string; sessionId: string; expiresAt: Date | null }): Promise<string>
  /** Session id of a token that is ours and has not expired, or null. */
  verify(token: string): Promise<{ userId: string; sessionId: string } | null>
  /** Text that others may keep for us for so many seconds, and can neither read nor change. */
  seal(value: Record<string, unknown>, seconds: number): Promise<string>
  /** What was sealed, or null for what is not ours or too old. */
  unseal<T>(text: string): Promise<T | null>
}

interface Proven {
  login: { userId: string; sessionId: string }
  /** Milliseconds; infinite for a token without an end. */
  expiresAt: number
}

const verifiedMax = 10_000

async function prove(token: string, key: Uint8Array): Promise<Proven | null> {
  try {
    const { payload } = await jwtVerify(token, key, { algorithms: ['HS256'], audience })
    const { sub: userId, jti: sessionId, exp } = payload
    if (!userId || !sessionId) return null
    return { login: { userId, sessionId }, expiresAt: exp === undefined ? Number.POSITIVE_INFINITY : exp * 1000 }
  } catch {
    return null
  }
}

/** HS256 only; the key never leaves the data directory. @source contract B2.6, RFC 8725 §3.1 */
export function tokenSigner(key: Uint8Array): TokenSigner {
  // One key, one use: what is sealed has a key of its own, derived from the one that signs.
  const sealKey = createHmac('sha256', key).update(sealAudience).digest()
  // What is true of the bytes of a token stays true; that its session lives is looked up with every request.
  const verified = new Map<string, Proven>()
  return {
    async sign({ userId, sessionId, expiresAt }) {
      const token = new SignJWT()
        .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
        .setSubject(userId)
        .setJti(sessionId)
        .setAudience(audience)
        .setIssuedAt()
      if (expiresAt) token.setExpirationTime(expiresAt)
      return token.sign(key)
    },
    async verify(token) {
      if (token.length > 4096) return null
      const before = verified.get(token)
      if (before && before.expiresAt > Date.now()) return before.login
      const proven = await prove(token, key)
      if (!proven) return null
      if (verified.size >= verifiedMax) verified.clear()
      verified.set(token, proven)
      return proven.login
    },
    seal: (value, seconds) =>
      new EncryptJWT(value)
        .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
        .setAudience(sealAudience)
        .setExpirationTime(`${seconds}s`)
        .encrypt(sealKey),
    async unseal<T>(text: string) {
      try {
        return (await jwtDecrypt(text, sealKey, { audience: sealAudience })).payload as T
      } catch {
        return null
      }
    },
  }
}
