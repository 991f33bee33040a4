import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { chmod, link, mkdir, readFile, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** A secret of this installation, made at its first use; processes that share the data directory share it. */
export async function installationKey(dataDir: string, name: string): Promise<Buffer> {
  const folder = join(dataDir, 'secrets')
  const path = join(folder, name)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await chmod(folder, 0o700)
  const draft = `${path}.${process.pid}.${randomBytes(4).toString('hex')}`
  await writeFile(draft, randomBytes(32), { mode: 0o600, flush: true })
  // A link appears whole or not at all, and the first one wins.
  await link(draft, path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  await unlink(draft)
  const key = await readFile(path)
  if (key.length !== 32)
    throw new Error(
      `${path} is damaged: it must hold 32 bytes. Restore it from a backup, or remove it and give up what it protects.`,
    )
  return key
}

/** Keeps secrets in the database so that the database alone does not tell them. */
export interface SecretBox {
  /** `purpose` says what the secret belongs to; it opens under the same purpose alone. */
  seal(secret: unknown, purpose: string): string
  /** Throws when it was sealed under another key or purpose, or was changed. */
  open<T>(sealed: string, purpose: string): T
}

const format = 'v1.'
const nonceBytes = 12
const tagBytes = 16

/** AES-256-GCM with a random nonce for each secret. @source NIST SP 800-38D §8.2.2 */
export function secretBox(key: Buffer): SecretBox {
  return {
    seal(secret, purpose) {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(purpose))
      const text = Buffer.concat([cipher.update(JSON.stringify(secret), 'utf8'), cipher.final()])
      return format + Buffer.concat([nonce, cipher.getAuthTag(), text]).toString('base64url')
    },
    open(sealed, purpose) {
      const bytes = Buffer.from(sealed.startsWith(format) ? sealed.slice(format.length) : '', 'base64url')
      try {
        const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes), {
          authTagLength: tagBytes,
        })
        decipher.setAAD(Buffer.from(purpose)).setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
        const text = Buffer.concat([decipher.update(bytes.subarray(nonceBytes + tagBytes)), decipher.final()])
        return JSON.parse(text.toString('utf8'))
      } catch (cause) {
        throw new Error('a stored secret does not open: it was sealed under another key', { cause })
      }
    },
  }
}

/** The box of this installation: under the configured key (hexadecimal), else one kept in the data folder. */
export async function openSecretBox(config: { dataDir: string; secretKey: string | null }): Promise<SecretBox> {
  const configured = config.secretKey ? Buffer.from(config.secretKey, 'hex') : null
  return secretBox(configured ?? (await installationKey(config.dataDir, 'secrets.key')))
}
