import { describe, expect, test } from 'vitest'
import { toOciError } from './oci-errors.ts'
import { contentRange, parseBlobRange, requireNextChunk, uploadRange } from './oci-ranges.ts'

function refusal(act: () => unknown) {
  try {
    act()
  } catch (error) {
    return toOciError(error)
  }
  return null
}

describe('Range of a blob of 1000 bytes', () => {
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
    expect(parseBlobRange(header, 1000)).toEqual({ start, end })
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
    expect(parseBlobRange(header, 1000)).toBeNull()
  })

  test.each(['bytes=500-0', 'bytes=1000-', 'bytes=1000-2000', 'bytes=-0', `bytes=${'9'.repeat(400)}-`])(
    '416: %s',
    (header) => {
      const headers = { 'Content-Range': 'bytes */1000' }
      expect(refusal(() => parseBlobRange(header, 1000))).toMatchObject({ status: 416, headers })
    },
  )

  test('416 for any range of an empty blob, the whole without one', () => {
    for (const header of ['bytes=0-', 'bytes=0-0', 'bytes=-1']) {
      expect(
        refusal(() => parseBlobRange(header, 0)),
        header,
      ).toMatchObject({ status: 416 })
    }
    expect(parseBlobRange(undefined, 0)).toBeNull()
  })

  test('the answer’s Content-Range counts as HTTP does', () => {
    expect(contentRange({ start: 0, end: 499 }, 1000)).toBe('bytes 0-499/1000')
  })
})

describe('chunks of an upload that holds 100 bytes', () => {
  test('without Content-Range the chunk is appended', () => {
    expect(requireNextChunk(undefined, 100, 7)).toBe(7)
    expect(requireNextChunk(undefined, 100, null)).toBeNull()
  })

  test.each(['100-149', 'bytes 100-149', 'bytes 100-149/200', 'bytes=100-149/*', ' 100-149 '])(
    '%s follows',
    (header) => {
      expect(requireNextChunk(header, 100, 50)).toBe(50)
      expect(requireNextChunk(header, 100, null)).toBe(50)
    },
  )

  test.each([
    '0-49',
    '99-149',
    '101-150',
    '100-99',
    '100',
    '-100',
    '100-',
    'a-b',
    '',
    '100-149-150',
    '1e2-149',
    '100-9999999999999999',
  ])('416 with the bytes held: %s', (header) => {
    expect(refusal(() => requireNextChunk(header, 100, null))).toMatchObject({
      code: 'BLOB_UPLOAD_INVALID',
      status: 416,
      headers: { Range: '0-99' },
      detail: { offset: 100 },
    })
  })

  test('400 when the range and the length disagree', () => {
    expect(refusal(() => requireNextChunk('100-149', 100, 49))).toMatchObject({ code: 'SIZE_INVALID', status: 400 })
  })

  test('the first chunk starts at 0, and an empty upload is told as 0-0', () => {
    expect(requireNextChunk('0-9', 0, 10)).toBe(10)
    expect(uploadRange(0)).toBe('0-0')
    expect(uploadRange(1)).toBe('0-0')
    expect(uploadRange(100)).toBe('0-99')
  })
})
