import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { NearDuplicates } from './near-duplicates.ts'

/** Sixteen digits that look like nothing else, the same on every machine. */
const fingerprint = (seed: number) => createHash('sha256').update(String(seed)).digest('hex').slice(0, 16)

function flipped(hex: string, bits: number[]): string {
  const value = bits.reduce((sum, bit) => sum ^ (1n << BigInt(bit)), BigInt(`0x${hex}`))
  return value.toString(16).padStart(16, '0')
}

async function find(looks: { fingerprint: string; width?: number; height?: number }[]): Promise<number[]> {
  const images = new NearDuplicates()
  for (const look of looks) images.add({ width: 40, height: 30, ...look })
  return [...(await images.find())]
}

describe('NearDuplicates', () => {
  test('finds every pair that differs in up to three bits, wherever these are', async () => {
    const base = fingerprint(0)
    for (let a = 0; a < 64; a += 3)
      for (let b = a + 1; b < 64; b += 7) {
        const looks = [base, fingerprint(1), flipped(base, [a, b, (b + 21) % 64])]
        expect(await find(looks.map((hex) => ({ fingerprint: hex })))).toEqual([-1, -1, 0])
      }
  })

  test('four bits are another image', async () => {
    const base = fingerprint(0)
    expect(await find([{ fingerprint: base }, { fingerprint: flipped(base, [1, 20, 40, 60]) }])).toEqual([-1, -1])
  })

  test('names the first of several, also to those that are equal to a later one', async () => {
    const base = fingerprint(0)
    const near = flipped(base, [5])
    const looks = [fingerprint(7), base, near, near, base].map((hex) => ({ fingerprint: hex }))
    expect(await find(looks)).toEqual([-1, -1, 1, 1, 1])
  })

  test('another shape is another image, another size is not; even surfaces are left out', async () => {
    const base = fingerprint(0)
    expect(
      await find([
        { fingerprint: base },
        { fingerprint: base, width: 80, height: 60 },
        { fingerprint: base, width: 60, height: 60 },
        { fingerprint: '0000000000000000' },
        { fingerprint: '0000000000000001' },
        { fingerprint: 'ffffffffffffffff' },
        { fingerprint: 'ffffffffffffffff' },
      ]),
    ).toEqual([-1, 0, -1, -1, -1, -1, -1])
  })
})
