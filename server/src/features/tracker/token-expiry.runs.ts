import { defineRun, type Schedule, type StepRun, step } from '../../platform/runs/define-run.ts'
import { read } from '../../platform/transaction.ts'
import { notify } from '../notifications/notifications.api.ts'
import { listExpiringTokens } from './tokens.store.ts'

/** How long beforehand. */
const noticeMs = 7 * 86_400_000

export const tokenGroup = { name: 'tracker_tokens', title: 'Tracker tokens' }

/** Tells the owners of tokens that expire within a week, once each. */
export const tokenExpiry = defineRun<Record<string, never>>({
  kind: 'tracker.announceExpiry',
  steps: [step('announce', 'Announce tokens that expire soon', announce)],
})

async function announce(s: StepRun<unknown>): Promise<{ announced: number }> {
  const now = s.ctx.clock.now()
  return read(s.ctx, async (tx) => {
    const tokens = await listExpiringTokens(tx, now, new Date(now.getTime() + noticeMs))
    for (const { id, tenantId, userId, name, expiresAt } of tokens) {
      await notify(tx, {
        tenantId,
        to: { userIds: [userId] },
        group: tokenGroup.name,
        title: `Your tracker token ${name} expires on ${expiresAt!.toISOString().slice(0, 10)}`,
        body: 'Make a new token and give it to your MLflow clients; the old one is refused after that day.',
        link: '/tracker/tokens',
        dedupeKey: `tracker-token-expiry:${id}`,
      })
    }
    return { announced: tokens.length }
  })
}

export const tokenExpirySchedule: Schedule = {
  name: tokenExpiry.kind,
  every: 3600_000,
  kind: tokenExpiry.kind,
  input: {},
}
