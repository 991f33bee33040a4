import { coalescing } from '../../platform/coalescing.ts'
import type { Database } from '../../platform/db/database.ts'
import type { Authenticator, Login, PresentedToken } from '../../platform/http/credentials.ts'
import { findLogins, type LoginRow, type WantedLogin } from './identity.store.ts'
import type { TokenSigner } from './tokens.ts'

// What no code looks like names no tenant, and is not asked of the database, which takes no NUL for example.
const tenantCodePattern = /^[a-z0-9-]{1,63}$/
const rememberedTokens = 10_000
const togetherMost = 200

interface ProvenToken {
  userId: string
  sessionId: string
}

/**
 * Checks signatures once: a token that was ours stays ours. Whether its login is still alive (ended, expired, of an
 * active user) is the business of the database, every time. What is refused is not remembered, so nobody can fill it.
 */
function proofOf(signer: TokenSigner): (token: string) => Promise<ProvenToken | null> {
  const proven = new Map<string, ProvenToken>()
  return async (token) => {
    const known = proven.get(token)
    if (known) return known
    const found = await signer.verify(token)
    if (!found) return null
    if (proven.size >= rememberedTokens) proven.delete(proven.keys().next().value!)
    proven.set(token, found)
    return found
  }
}

/**
 * Proves logins: the token must be ours, its session must not be ended, its user must be active, each looked at on
 * every request. @source contract B2.5–B2.6
 */
export function sessionAuthenticator(db: Database, signer: TokenSigner): Authenticator {
  const prove = proofOf(signer)
  // Each is looked up after it came, so a login that ended lets nobody in; those that come together share one query.
  const find = coalescing<WantedLogin, LoginRow | undefined>({
    work: (wanted) => findLogins(db, wanted),
    fits: (batch) => batch.length < togetherMost,
    isOfOne: () => false,
    lanes: 2,
  })
  return {
    async authenticate(tokens, tenantCode) {
      for (const presented of tokens) {
        const login = await loginOf(find, prove, presented, tenantCode)
        if (login) return login
      }
      return null
    },
  }
}

async function loginOf(
  find: (wanted: WantedLogin) => Promise<LoginRow | undefined>,
  prove: (token: string) => Promise<ProvenToken | null>,
  presented: PresentedToken,
  tenantCode: string | null,
): Promise<Login | null> {
  const token = await prove(presented.token)
  if (!token) return null
  const { sessionId } = token
  const isCode = tenantCode !== null && tenantCodePattern.test(tenantCode)
  const row = await find({ sessionId, tenantCode: isCode ? tenantCode : null })
  if (!row || row.userId !== token.userId || !row.isActive) return null
  if (row.expiresAt && row.expiresAt.getTime() <= Date.now()) return null
  const mayKnow = row.tenantId !== null && (row.role !== null || row.isSuperuser)
  return {
    byCookie: presented.byCookie,
    actor: {
      userId: row.userId,
      email: row.email,
      fullName: row.fullName,
      isSuperuser: row.isSuperuser,
      sessionId,
    },
    tenant: mayKnow
      ? {
          id: row.tenantId!,
          code: row.tenantCode!,
          isActive: row.tenantIsActive!,
          features: row.tenantFeatures!,
          role: row.role,
        }
      : null,
  }
}
