import { randomBytes } from 'node:crypto'
import { type Algorithm, hash, verify } from '@node-rs/argon2'
import { verify as verifyBcrypt } from '@node-rs/bcrypt'
import { PlatformError } from '../../platform/errors.ts'

const argon2id = 2 as Algorithm
// @source OWASP Password Storage Cheat Sheet: Argon2id, 19 MiB, 2 passes, 1 lane
const cost = { algorithm: argon2id, memoryCost: 19_456, timeCost: 2, parallelism: 1 }

export const hashPassword = (password: string): Promise<string> => hash(password, cost)

/** What every hash of our own begins with; anything else is made anew at the next login. */
const current = `$argon2id$v=19$m=${cost.memoryCost},t=${cost.timeCost},p=${cost.parallelism}$`
const argon2Hash = /^\$argon2(id|i|d)\$v=\d+\$m=\d+,t=\d+,p=\d+\$[^$]+\$[^$]+$/
// A higher cost would hold a thread for many seconds at every guess.
const bcryptHash = /^\$2[aby]\$(0[4-9]|1[0-5])\$[./A-Za-z0-9]{53}$/

/** Whether the hash comes from another system, or from weaker settings of ours. @source contract B2.10 */
export const isOutdated = (stored: string): boolean => !stored.startsWith(current)

let decoy: Promise<string> | null = null

/** How often a password was held against a hash, by algorithm, since the process started. */
export const passwordChecks = { argon2: 0, bcrypt: 0 }

const isArgon2Of = (stored: string, password: string): Promise<boolean> => {
  passwordChecks.argon2 += 1
  return verify(stored, password).catch(() => false)
}

const isBcryptOf = (stored: string, password: string): Promise<boolean> => {
  passwordChecks.bcrypt += 1
  return verifyBcrypt(password, stored).catch(() => false)
}

/**
 * Whether the password is right, of an Argon2 or a bcrypt hash. Without a stored hash, or with one that is none, it does
 * the same work and says no, so that the time of an answer does not tell which accounts exist. bcrypt takes longer than
 * ours: while there is an account left with such a hash (`imported`), every check does the work of both.
 * @source contract B2.2, B2.10
 */
export async function verifyPassword(
  stored: string | null,
  password: string,
  imported: string | null = null,
): Promise<boolean> {
  decoy ??= hashPassword(randomBytes(32).toString('base64url'))
  const own = stored !== null && argon2Hash.test(stored) ? stored : null
  const foreign = stored !== null && bcryptHash.test(stored) ? stored : null
  const bcrypt = foreign ?? imported
  const [ours, theirs] = await Promise.all([
    isArgon2Of(own ?? (await decoy), password),
    bcrypt !== null && bcryptHash.test(bcrypt) && isBcryptOf(bcrypt, password),
  ])
  return (own !== null && ours) || (foreign !== null && theirs)
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
