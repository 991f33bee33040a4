import type { RetentionRule } from '../../platform/retention.ts'
import { defineRun, type Schedule, type StepRun, step } from '../../platform/runs/define-run.ts'
import { transaction } from '../../platform/transaction.ts'
import { forgetExpiredLogins } from '../identity/identity.api.ts'
import { deleteRunLogs, deleteScheduledRuns } from './housekeeping.store.ts'

const dayMs = 86_400_000
const batchRows = 2000

type Run = StepRun<Record<string, never>>

/** What nobody reads any more: expired logins, runs of schedules. */
export const housekeeping = defineRun<Record<string, never>>({
  kind: 'system.housekeeping',
  steps: [
    step('logins', 'Forget expired logins', async (s) => {
      const forgotten = await transaction(s.ctx, forgetExpiredLogins)
      if (forgotten) s.log(`${forgotten} expired logins forgotten`)
    }),
    step('schedules', 'Erase old runs of schedules', eraseScheduledRuns),
  ],
})

async function eraseScheduledRuns(s: Run): Promise<void> {
  const before = { succeeded: daysAgo(s, 1), other: daysAgo(s, 30) }
  const removed = await untilNone(s, () => transaction(s.ctx, (tx) => deleteScheduledRuns(tx, before, batchRows)))
  if (removed) s.log(`${removed} runs of schedules erased`)
}

const daysAgo = (s: Run, days: number): Date => new Date(s.ctx.clock.now().getTime() - days * dayMs)

async function untilNone(s: Run, work: () => Promise<number>): Promise<number> {
  for (let total = 0; ; ) {
    s.signal.throwIfAborted()
    const count = await work()
    total += count
    if (count < batchRows) return total
  }
}

export const logRetention: RetentionRule = {
  kind: 'logs',
  what: 'lines of run logs',
  erase: (ctx, { tenantId, before }) =>
    transaction(ctx, (tx) => (tenantId ? deleteRunLogs(tx, tenantId, before, batchRows) : Promise.resolve(0))),
}

export const housekeepingSchedule: Schedule = {
  name: 'system.housekeeping',
  every: '10 * * * *',
  kind: housekeeping.kind,
  input: {},
}
