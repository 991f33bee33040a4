import { Cron } from 'croner'
import { sql } from 'kysely'
import type { Services } from '../context.ts'
import { transaction } from '../db/transaction.ts'
import type { RunKind, Schedule } from './define-run.ts'
import { insertRun } from './runs.ts'

/** Starts the runs that are due. Each is started once, however many workers look at the same time. */
export async function startDueSchedules(
  services: Services,
  kinds: Map<string, RunKind>,
  schedules: Schedule[],
): Promise<void> {
  for (const schedule of await dueSchedules(services, schedules)) {
    const kind = kinds.get(schedule.kind)
    if (!kind) throw new Error(`schedule ${schedule.name} starts the unknown kind ${schedule.kind}`)
    await transaction(services.db, 'system', async (tx) => {
      const now = services.clock.now()
      await tx
        .insertInto('schedules')
        .values({ name: schedule.name, nextAt: nextTime(schedule, now) })
        .onConflict((oc) => oc.column('name').doNothing())
        .execute()
      const due = await sql<{ name: string }>`
        select name from schedules where name = ${schedule.name} and next_at <= ${now} for update skip locked`.execute(
        tx,
      )
      if (due.rows.length === 0) return
      const runId = await insertRun(tx, kind, {
        tenantId: null,
        input: schedule.input,
        subject: `schedule:${schedule.name}`,
        actor: null,
      })
      await tx
        .updateTable('schedules')
        .set({ nextAt: nextTime(schedule, now), ...(runId ? { lastRunId: runId } : {}) })
        .where('name', '=', schedule.name)
        .execute()
    })
  }
}

/** Those that are due or were never seen: mostly none, so one look at all of them is all that is done. */
async function dueSchedules(services: Services, schedules: Schedule[]): Promise<Schedule[]> {
  if (schedules.length === 0) return []
  const rows = await transaction(services.db, 'system', (tx) =>
    tx.selectFrom('schedules').select(['name', 'nextAt']).execute(),
  )
  const next = new Map(rows.map(({ name, nextAt }) => [name, nextAt]))
  const now = services.clock.now()
  return schedules.filter(({ name }) => (next.get(name) ?? now) <= now)
}

function nextTime(schedule: Schedule, now: Date): Date {
  if (typeof schedule.every === 'number') return new Date(now.getTime() + schedule.every)
  const next = new Cron(schedule.every, { timezone: 'UTC' }).nextRun(now)
  if (!next) throw new Error(`schedule ${schedule.name} never comes: ${schedule.every}`)
  return next
}
