import type { Services } from '../../platform/context.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { expiryNoticeMs, tellExpiring } from '../notifications/token-expiry.api.ts'
import { listExpiringTokens } from './tokens.store.ts'

const kind = {
  group: 'registry_tokens',
  what: 'registry token',
  advice: 'Make a new token and sign in with it.',
  link: '/registry/tokens',
}

/** Tells the owners of tokens that expire within a week, once each; returns how many there are. */
export function announceExpiry(services: Services): Promise<number> {
  const now = services.clock.now()
  return transaction(services.db, 'system', async (tx) => {
    const tokens = await listExpiringTokens(tx, now, new Date(now.getTime() + expiryNoticeMs))
    await tellExpiring(tx, kind, tokens)
    return tokens.length
  })
}
