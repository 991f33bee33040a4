import { type Algorithm, hash, verify } from '@node-rs/argon2'
import { PlatformError } from '../../platform/errors.ts'

const argon2id = 2 as Algorithm
// @source OWASP Password Storage Cheat Sheet: Argon2id, 19 MiB, 2 passes, 1 lane
const cost = { algorithm: argon2id, memoryCost: 19_456, timeCost: 2, parallelism: 1 }

export const hashPassword = (password: string): Promise<string> => hash(password, cost)

let decoy: Promise<string> | null = null

/**
 * Whether the password is right. Without a stored hash it takes the same time and says no, so that the time of an
 * answer does not tell which accounts exist. @source contract B2.2
 */
export async function verifyPassword(stored: string | null, password: string): Promise<boolean> {
  decoy ??= hashPassword('decoy')
  const right = await verify(stored ?? (await decoy), password).catch(() => false)
  return stored !== null && right
}

/** Throws the 400 that says what is wrong with a new password. @source contract B2.10 */
export function checkPassword(
  password: string,
  email: string,
  code: 'UPDATE_USER_INVALID_PASSWORD' | 'REGISTER_INVALID_PASSWORD',
): void {
  const refuse = (reason: string) => {
    throw new PlatformError('bad_request', reason, { detail: { code, reason } })
  }
  if (password.length < 8 || password.length > 128) refuse('The password must have 8 to 128 characters.')
  const lower = password.toLowerCase()
  const address = email.toLowerCase()
  if (lower === address || lower === address.split('@')[0])
    refuse('The password must not be the e-mail address or its first part.')
}
