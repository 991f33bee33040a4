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

/** HS256 only; the key never leaves the data directory. @source contract B2.6, RFC 8725 §3.1 */
export function tokenSigner(key: Uint8Array): TokenSigner {
  // One key, one use: what is sealed has a key of its own, derived from the one that signs.
  const sealKey = createHmac('sha256', key).update(sealAudience).digest()
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
      try {
        const { payload } = await jwtVerify(token, key, { algorithms: ['HS256'], audience })
        return payload.sub && payload.jti ? { userId: payload.sub, sessionId: payload.jti } : null
      } catch {
        return null
      }
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
