import { createHmac, randomBytes } from 'node:crypto'
import { chmod, link, mkdir, readFile, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
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

/** A secret of this installation, made at its first use; processes that share the data directory share it. */
export async function installationKey(dataDir: string, name: string): Promise<Buffer> {
  const folder = join(dataDir, 'secrets')
  const path = join(folder, name)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await chmod(folder, 0o700)
  const draft = `${path}.${process.pid}`
  await writeFile(draft, randomBytes(32), { mode: 0o600, flush: true })
  // A link appears whole or not at all, and the first one wins.
  await link(draft, path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  await unlink(draft)
  const key = await readFile(path)
  if (key.length !== 32)
    throw new Error(`${path} is damaged: it must hold 32 bytes. Restore it, or remove it to end every login.`)
  return key
}
