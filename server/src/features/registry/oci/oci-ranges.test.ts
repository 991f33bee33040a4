import { describe, expect, test } from 'vitest'
import { toOciError } from './oci-errors.ts'
import { requireNextChunk, uploadRange } from './oci-ranges.ts'

function refusal(act: () => unknown) {
  try {
    act()
  } catch (error) {
    return toOciError(error)
  }
  return null
}

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
