import { describe, expect, test } from 'vitest'
import { resampleBilinear } from './resample.ts'

/** Pixels that both this test and the recorded Pillow run compute the same way. */
function pattern(width: number, height: number): Uint8Array {
  return Uint8Array.from({ length: width * height * 3 }, (_, index) => (index * 151) % 256)
}

// Recorded from Pillow 13.0.0: Image.resize(size, Image.BILINEAR).tobytes().hex()
const recorded = {
  smaller:
    '756aa3619b6989867d8f9a687c6099776ca5639d6b8b887f919c6a7e629b796ea7659f6d8d768193916c80649d7b70a967a16f8f5283957a6e82669f',
  larger:
    '00972e4f7f7dc55cf3a239d08a21b814ab424993779970c79c4da49e358c3bd2693dba6b40976e90744bc55c334fe67d37ce6514ab428a881fd97007',
}

describe('resampleBilinear', () => {
  test('gives the bytes of Pillow when it reduces', () => {
    const pixels = resampleBilinear(pattern(13, 9), { width: 13, height: 9 }, { width: 5, height: 4 })
    expect(Buffer.from(pixels).toString('hex')).toBe(recorded.smaller)
  })

  test('gives the bytes of Pillow when it enlarges', () => {
    const pixels = resampleBilinear(pattern(3, 2), { width: 3, height: 2 }, { width: 5, height: 4 })
    expect(Buffer.from(pixels).toString('hex')).toBe(recorded.larger)
  })

  test('keeps an image that has the size already', () => {
    const pixels = resampleBilinear(pattern(5, 4), { width: 5, height: 4 }, { width: 5, height: 4 })
    expect(pixels).toEqual(pattern(5, 4))
  })
})
