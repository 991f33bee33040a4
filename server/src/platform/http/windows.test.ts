import { describe, expect, test } from 'vitest'
import { decodeCursor, encodeCursor } from './cursor.ts'
import { durationMs, parseTime, rangeMs, sinceTime, stepMs } from './windows.ts'

describe('durations', () => {
  test('are units longest first, each once, above zero, without decimals', () => {
    expect(durationMs('1h30m')).toBe(5_400_000)
    expect(durationMs('1d12h')).toBe(129_600_000)
    expect(durationMs('250ms')).toBe(250)
    for (const bad of ['', '0s', '30m1h', '1h1h', '1.5h', '-1h', 'h', '90', '1 h'])
      expect(durationMs(bad), bad).toBeNull()
  })

  test('range: a default, at most 90 days, and 422 naming it', () => {
    expect(rangeMs(undefined, '1h')).toBe(3_600_000)
    expect(() => rangeMs('91d', '1h')).toThrow('query.range')
    expect(rangeMs('90d', '1h')).toBe(7_776_000_000)
  })

  test('step: 15 s or a 120th of the range by default, seconds too, 11,000 points at most', () => {
    expect(stepMs(undefined, 60_000)).toBe(15_000)
    expect(stepMs(undefined, 7_200_000)).toBe(60_000)
    expect(stepMs('30', 3_600_000)).toBe(30_000)
    expect(() => stepMs('1s', 11_001_000)).toThrow('query.step')
  })

  test('since: relative or a time; a time without a zone is UTC', () => {
    const now = new Date('2026-01-02T00:00:00Z')
    expect(sinceTime('24h', now).toISOString()).toBe('2026-01-01T00:00:00.000Z')
    expect(sinceTime('2026-01-01T10:00:00', now).toISOString()).toBe('2026-01-01T10:00:00.000Z')
    expect(() => sinceTime('yesterday', now)).toThrow('query.since')
    for (const endless of ['9007199254740993m', '99999999d', '0000-01-01'])
      expect(() => sinceTime(endless, now), endless).toThrow('query.since')
    expect(parseTime('2026-01-01T10:00:00+09:00')?.toISOString()).toBe('2026-01-01T01:00:00.000Z')
  })
})

describe('cursors', () => {
  const key = Buffer.alloc(32, 1)
  const position = { time: new Date('2026-01-01T00:00:00Z'), id: 'x' }

  test('come back as they were made, for the same filters', () => {
    expect(decodeCursor(key, encodeCursor(key, position, { device: 'a' }), { device: 'a' })).toEqual(position)
  })

  test('400 for other filters, another key, a changed byte, and noise', () => {
    const cursor = encodeCursor(key, position, { device: 'a' })
    expect(() => decodeCursor(key, cursor, { device: 'b' })).toThrow('cursor')
    expect(() => decodeCursor(Buffer.alloc(32, 2), cursor, { device: 'a' })).toThrow('cursor')
    expect(() => decodeCursor(key, `${cursor.slice(0, -2)}AA`, { device: 'a' })).toThrow('cursor')
    for (const noise of ['', 'x', '%%%']) expect(() => decodeCursor(key, noise, {})).toThrow('cursor')
  })
})
