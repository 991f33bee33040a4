import { Cron } from 'croner'
import { invalid } from '../../platform/errors.ts'

const leastGapMs = 5 * 60_000
const gapsLookedAt = 50

/** Throws a 422 for what is no cron expression, never comes, or comes more often than every five minutes. */
export function checkSchedule(expression: string): void {
  const fault = (msg: string) => invalid({ loc: ['body', 'schedule'], msg, type: 'value_error', input: expression })
  if (expression.trim().split(/\s+/).length !== 5) throw fault('must be a cron expression of five fields')
  const times = nextTimes(expression, gapsLookedAt)
  if (!times) throw fault('must be a cron expression of five fields')
  if (times.length === 0) throw fault('never comes')
  if (times.some((time, index) => index > 0 && time.getTime() - times[index - 1]!.getTime() < leastGapMs))
    throw fault('comes more often than every five minutes')
}

function nextTimes(expression: string, count: number): Date[] | null {
  try {
    return new Cron(expression, { timezone: 'UTC', paused: true }).nextRuns(count)
  } catch {
    return null
  }
}

/** Null when it never comes again. */
export const nextTime = (expression: string, now: Date): Date | null =>
  new Cron(expression, { timezone: 'UTC', paused: true }).nextRun(now)
