import type { FastifyRequest } from 'fastify'
import { describe, expect, test } from 'vitest'
import { PlatformError } from '../errors.ts'
import { matchesEtag, requestedRange } from './content.ts'

const etag = '"abc"'
const rangeOf = (range: string | undefined, size: number, more: Record<string, string> = {}) =>
  requestedRange({ headers: { range, ...more } } as unknown as FastifyRequest, etag, size)

function refusal(act: () => unknown): Partial<PlatformError> {
  try {
    act()
  } catch (error) {
    if (error instanceof PlatformError) return error
    throw error
  }
  return {}
}

describe('Range of 1000 bytes', () => {
  test.each([
    ['bytes=0-499', 0, 499],
    ['bytes=0-0', 0, 0],
    ['bytes=999-999', 999, 999],
    ['bytes=500-', 500, 999],
    ['bytes=-1', 999, 999],
    ['bytes=-300', 700, 999],
    ['bytes=-5000', 0, 999],
    ['bytes=900-5000', 900, 999],
    ['BYTES=1-2', 1, 2],
  ])('%s → %i to %i', (header, start, end) => {
    expect(rangeOf(header, 1000)).toEqual({ start, end })
  })

  test.each([
    undefined,
    '',
    'bytes',
    'bytes=',
    'bytes=-',
    'bytes=a-b',
    'items=0-1',
    'bytes=0-1,5-6',
    'bytes=1.5-2',
    '0-1',
  ])('%s → the whole', (header) => {
    expect(rangeOf(header, 1000)).toBeNull()
  })

  test.each(['bytes=500-0', 'bytes=1000-', 'bytes=1000-2000', 'bytes=-0', `bytes=${'9'.repeat(400)}-`])(
    '416: %s',
    (header) => {
      const headers = { 'content-range': 'bytes */1000' }
      expect(refusal(() => rangeOf(header, 1000))).toMatchObject({ code: 'range_not_satisfiable', headers })
    },
  )

  test('416 for any range of nothing, the whole without one', () => {
    for (const header of ['bytes=0-', 'bytes=0-0', 'bytes=-1']) {
      expect(
        refusal(() => rangeOf(header, 0)),
        header,
      ).toMatchObject({ code: 'range_not_satisfiable' })
    }
    expect(rangeOf(undefined, 0)).toBeNull()
  })

  test('counts only while the content is what If-Range says', () => {
    expect(rangeOf('bytes=0-1', 1000, { 'if-range': etag })).toEqual({ start: 0, end: 1 })
    expect(rangeOf('bytes=0-1', 1000, { 'if-range': '"other"' })).toBeNull()
  })
})

test('If-None-Match names one, several, weak ones, or any', () => {
  for (const header of ['"abc"', '"x", "abc"', 'W/"abc"', '*']) expect(matchesEtag(header, etag), header).toBe(true)
  for (const header of [undefined, '', '"x"', 'abc']) expect(matchesEtag(header, etag), header).toBe(false)
})
