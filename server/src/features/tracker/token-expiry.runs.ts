import { defineRun, type Schedule, type StepRun, step } from '../../platform/runs/define-run.ts'
import { transaction } from '../../platform/transaction.ts'
import { expiryNoticeMs, tellExpiring } from '../notifications/token-expiry.api.ts'
import { listExpiringTokens } from './tokens.store.ts'

export const tokenGroup = { name: 'tracker_tokens', title: 'Tracker tokens' }

const kind = {
  group: tokenGroup.name,
  what: 'tracker token',
  advice: 'Make a new token and give it to your MLflow clients.',
  link: '/tracker/tokens',
}

/** Tells the owners of tokens that expire within a week, once each. */
export const tokenExpiry = defineRun<Record<string, never>>({
  kind: 'tracker.announceExpiry',
  steps: [step('announce', 'Announce tokens that expire soon', announce)],
})

function announce(s: StepRun<unknown>): Promise<{ announced: number }> {
  const now = s.ctx.clock.now()
  return transaction(s.ctx, async (tx) => {
    const tokens = await listExpiringTokens(tx, now, new Date(now.getTime() + expiryNoticeMs))
    await tellExpiring(tx, kind, tokens)
    return { announced: tokens.length }
  })
}

export const tokenExpirySchedule: Schedule = {
  name: tokenExpiry.kind,
  every: 3600_000,
  kind: tokenExpiry.kind,
  input: {},
}
