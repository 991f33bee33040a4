import type { Tx } from '../../platform/db/transaction.ts'
import { notify } from './notifications.api.ts'

/** How long before the end of a token its owner is told. */
export const expiryNoticeMs = 7 * 86_400_000

export interface ExpiringToken {
  id: string
  tenantId: string
  userId: string
  name: string
  expiresAt: Date | null
}

export interface TokenKind {
  group: string
  /** In words, such as `registry token`. */
  what: string
  /** What to do. */
  advice: string
  /** Where in the console. */
  link: string
}

/** Tells the owners of tokens that expire soon, once each, however often it is called. */
export async function tellExpiring(
  tx: Tx,
  { group, what, advice, link }: TokenKind,
  tokens: ExpiringToken[],
): Promise<void> {
  for (const { id, tenantId, userId, name, expiresAt } of tokens) {
    await notify(tx, {
      tenantId,
      to: { userIds: [userId] },
      group,
      title: `Your ${what} ${name} expires on ${expiresAt!.toISOString().slice(0, 10)}`,
      body: `${advice} The old one is refused after that day.`,
      link,
      dedupeKey: `${what.replaceAll(' ', '-')}-expiry:${id}`,
    })
  }
}
