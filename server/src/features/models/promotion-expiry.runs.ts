import { defineRun, type Schedule, type StepRun, step } from '../../platform/runs/define-run.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { expirePromotions } from './promotions.service.ts'
import { listExpired } from './promotions.store.ts'

/** Ends requests that nobody decided, so that who asked learns of it although nobody looks. */
export const promotionExpiry = defineRun<Record<string, never>>({
  kind: 'models.expirePromotions',
  steps: [step('expire', 'Expire promotion requests', expire)],
})

async function expire(s: StepRun<unknown>): Promise<void> {
  const { publicUrl, clock } = s.ctx
  const now = clock.now()
  for (const tenantId of await read(s.ctx, (tx) => listExpired(tx, now))) {
    s.signal.throwIfAborted()
    await transaction(s.ctx, (tx) => expirePromotions(tx, { tenant: { id: tenantId }, publicUrl }, now))
  }
}

export const promotionExpirySchedule: Schedule = {
  name: promotionExpiry.kind,
  every: 600_000,
  kind: promotionExpiry.kind,
  input: {},
}
