import { timingSafeEqual } from 'node:crypto'
import type { Actor, Services, TenantRef } from '../../platform/context.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { tooManyRequests } from '../../platform/errors.ts'
import { type Permission, permissions, permissionsOf } from '../../platform/http/permissions.ts'
import { isFeatureOn } from '../tenants/tenants.api.ts'
import { hashOfToken } from './token-secret.ts'
import { findTokenBySecret } from './tokens.store.ts'
import { wrongSecrets } from './wrong-secrets.ts'

/** Who stands behind a registry token at this moment. */
export interface TokenHolder {
  tokenId: string
  actor: Actor
  tenant: TenantRef
  tenantIsActive: boolean
  permissions: ReadonlySet<Permission>
  /** The tenant has the registry switched on. */
  hasRegistry: boolean
  expiresAt: Date | null
}

export interface TokenAccess {
  /**
   * Null for what is no token, unknown, expired or revoked, and for an owner who is switched off. Throws
   * `too_many_requests` for an address that tries many different secrets.
   */
  holderOf(password: string, address: string): Promise<TokenHolder | null>
  close(): void
}

/** Revocations are told to every process here. */
export const revokedChannel = 'registry-tokens'

/** How long a look at the database may be relied on. @source contract B9.2 */
const cacheMs = 1000
const cacheSize = 10_000
const guessesPerMinute = 60
const every: ReadonlySet<Permission> = new Set(Object.keys(permissions) as Permission[])

export function tokenAccess(services: Services): TokenAccess {
  const known = new Map<string, { holder: TokenHolder; until: number }>()
  const now = () => services.clock.now().getTime()
  const wrong = wrongSecrets(guessesPerMinute, now)
  const forget = services.events.subscribe(revokedChannel, () => known.clear())
  return {
    async holderOf(password, address) {
      const hash = hashOfToken(password)
      if (!hash) return null
      const key = hash.toString('base64')
      const cached = known.get(key)
      if (cached && cached.until > now() && !hasEnded(cached.holder, now())) return cached.holder
      known.delete(key)
      if (wrong.has(address, key)) return null
      refuseGuessing(wrong.waitSeconds(address))
      const holder = await loadHolder(services, hash)
      if (holder === 'unknown') wrong.add(address, key)
      if (!holder || holder === 'unknown' || hasEnded(holder, now())) return null
      if (known.size >= cacheSize) known.clear()
      known.set(key, { holder, until: now() + cacheMs })
      return holder
    },
    close: forget,
  }
}

const hasEnded = ({ expiresAt }: TokenHolder, now: number) => expiresAt !== null && expiresAt.getTime() <= now

function refuseGuessing(seconds: number): void {
  if (seconds === 0) return
  throw tooManyRequests('Too many wrong tokens from this address; try again in a minute.', {
    headers: { 'retry-after': String(seconds) },
  })
}

async function loadHolder(services: Services, hash: Buffer): Promise<TokenHolder | null | 'unknown'> {
  const row = await transaction(services.db, 'system', (tx) => findTokenBySecret(tx, hash))
  if (!row || !timingSafeEqual(row.secretHash, hash)) return 'unknown'
  if (row.revokedAt || !row.userIsActive) return null
  const { userId, email, fullName, isSuperuser } = row
  return {
    tokenId: row.id,
    actor: { userId, email, fullName, isSuperuser, sessionId: null },
    tenant: { id: row.tenantId, code: row.tenantCode },
    tenantIsActive: row.tenantIsActive,
    permissions: isSuperuser ? every : permissionsOf(row.role ?? ''),
    hasRegistry: isFeatureOn('registry', row.features as Record<string, boolean>),
    expiresAt: row.expiresAt,
  }
}
