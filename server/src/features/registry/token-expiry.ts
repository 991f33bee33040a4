import type { Services } from '../../platform/context.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { notify } from '../notifications/notifications.api.ts'
import { listExpiringTokens } from './tokens.store.ts'

/** How long beforehand. */
const noticeMs = 7 * 86_400_000

/** Tells the owners of tokens that expire within a week, once each; returns how many there are. */
export async function announceExpiry(services: Services): Promise<number> {
  const now = services.clock.now()
  return transaction(services.db, 'system', async (tx) => {
    const tokens = await listExpiringTokens(tx, now, new Date(now.getTime() + noticeMs))
    for (const { id, tenantId, userId, name, expiresAt } of tokens) {
      await notify(tx, {
        tenantId,
        to: { userIds: [userId] },
        group: 'registry_tokens',
        title: `Your registry token ${name} expires on ${expiresAt!.toISOString().slice(0, 10)}`,
        body: 'Make a new token and sign in with it; the old one is refused after that day.',
        link: '/registry/tokens',
        dedupeKey: `registry-token-expiry:${id}`,
      })
    }
    return tokens.length
  })
}
