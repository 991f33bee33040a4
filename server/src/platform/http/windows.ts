import { invalid } from '../errors.ts'

const unitMs: Record<string, number> = {
  y: 31_536_000_000,
  w: 604_800_000,
  d: 86_400_000,
  h: 3_600_000,
  m: 60_000,
  s: 1000,
  ms: 1,
}
const duration = /^(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?$/
/** Nothing is older, and the database knows no time before 4713 BC. */
const earliest = Date.parse('0001-01-01T00:00:00Z')
const longestRangeMs = 90 * unitMs.d!

/** Milliseconds of a Prometheus duration (`1h30m`), or null: units longest first, each once, above 0. @source contract B4.5 */
export function durationMs(text: string): number | null {
  const match = duration.exec(text)
  if (!match) return null
  const units = ['y', 'w', 'd', 'h', 'm', 's', 'ms']
  const total = units.reduce((sum, unit, index) => sum + Number(match[index + 1] ?? 0) * unitMs[unit]!, 0)
  return total > 0 ? total : null
}

/** A `range` query in milliseconds; at most 90 days. Throws the 422 that names it. @source contract B4.5 */
export function rangeMs(text: string | undefined, fallback: string): number {
  const value = durationMs(text ?? fallback)
  if (value === null || value > longestRangeMs) {
    throw invalid({
      loc: ['query', 'range'],
      msg: 'must be a duration such as 30m, 1h30m or 7d, at most 90d',
      type: 'duration_parsing',
      input: text,
    })
  }
  return value
}

/** A `step` query in milliseconds; 11,000 points at most. @source contract B4.5 */
export function stepMs(text: string | undefined, rangeInMs: number): number {
  if (text === undefined) return Math.max(15_000, Math.ceil(rangeInMs / 120))
  const value = /^\d+$/.test(text) ? Number(text) * 1000 : durationMs(text)
  if (!value || value > longestRangeMs || rangeInMs / value > 11_000) {
    throw invalid({
      loc: ['query', 'step'],
      msg: 'must be seconds or a duration that gives at most 11000 points',
      type: 'duration_parsing',
      input: text,
    })
  }
  return value
}

/** The start of a `since` window: `24h`, `7d` back from now, or a time. @source contract B4.5 */
export function sinceTime(text: string, now: Date): Date {
  const relative = /^(\d+)(m|h|d|w)$/.exec(text)
  const time = relative ? new Date(now.getTime() - Number(relative[1]) * unitMs[relative[2]!]!) : parseTime(text)
  if (!time || !(time.getTime() >= earliest))
    throw invalid({
      loc: ['query', 'since'],
      msg: 'must be a window such as 24h or 7d, or a time',
      type: 'datetime_parsing',
      input: text,
    })
  return time
}

/** An RFC 3339 time; one without a zone is UTC. Null when it is none. @source contract B1.9 */
export function parseTime(text: string): Date | null {
  if (!/^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?$/i.test(text)) return null
  const zoned = /(Z|[+-]\d\d:?\d\d)$/i.test(text) && text.length > 10
  const time = new Date(zoned || text.length === 10 ? text : `${text.replace(' ', 'T')}Z`)
  return Number.isNaN(time.getTime()) ? null : time
}
