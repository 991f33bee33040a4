import { defineRun, type Schedule, type StepRun, step } from '../../platform/runs/define-run.ts'
import { read } from '../../platform/transaction.ts'
import { forgetExpiredLogins } from '../identity/identity.api.ts'
import { listRetention } from '../tenants/tenants.api.ts'
import { deleteRunLogs, deleteScheduledRuns } from './housekeeping.store.ts'

const dayMs = 86_400_000
const batchRows = 2000

type Run = StepRun<Record<string, never>>

/** What nobody reads any more: logs of old runs as each tenant's retention says, expired logins, runs of schedules. */
export const housekeeping = defineRun<Record<string, never>>({
  kind: 'system.housekeeping',
  steps: [
    step('logs', 'Erase old logs', eraseLogs),
    step('logins', 'Forget expired logins', async (s) => {
      const forgotten = await read(s.ctx, forgetExpiredLogins)
      if (forgotten) s.log(`${forgotten} expired logins forgotten`)
    }),
    step('schedules', 'Erase old runs of schedules', eraseScheduledRuns),
  ],
})

async function eraseLogs(s: Run): Promise<void> {
  for (const { tenantId, days } of await read(s.ctx, (tx) => listRetention(tx, 'logs'))) {
    if (days === 0) continue
    const before = daysAgo(s, days)
    await untilNone(s, () => read(s.ctx, (tx) => deleteRunLogs(tx, tenantId, before, batchRows)))
  }
}

async function eraseScheduledRuns(s: Run): Promise<void> {
  const before = { succeeded: daysAgo(s, 1), other: daysAgo(s, 30) }
  const removed = await untilNone(s, () => read(s.ctx, (tx) => deleteScheduledRuns(tx, before, batchRows)))
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

export const housekeepingSchedule: Schedule = {
  name: 'system.housekeeping',
  every: '10 * * * *',
  kind: housekeeping.kind,
  input: {},
}
