import { describe, expect, test } from 'vitest'
import { downsample } from './downsampling.ts'

const curve = (count: number, value: (step: number) => number) =>
  Array.from({ length: count }, (_, step) => ({ step, value: value(step), ts: step }))
const stepsOf = (points: { step: number }[]) => points.map(({ step }) => step)

const curves: [string, (step: number) => number][] = [
  ['level', () => 10],
  ['falling', (step) => -step],
  ['swinging', (step) => Math.sin(step)],
  ['no number at all', () => Number.NaN],
]

describe('downsample', () => {
  test.each(curves)('a curve that is %s gives as many points as asked, in order, with both ends', (_, value) => {
    const kept = downsample(curve(1000, value), 100)
    expect(kept).toHaveLength(100)
    expect([kept[0]!.step, kept.at(-1)!.step]).toEqual([0, 999])
    expect(stepsOf(kept)).toEqual([...new Set(stepsOf(kept))].sort((a, b) => a - b))
  })

  test('one value that stands out is kept, wherever it is', () => {
    for (const place of [1, 333, 500, 998]) {
      const points = curve(1000, (step) => (step === place ? 5 : 0))
      expect(stepsOf(downsample(points, 10))).toContain(place)
    }
  })

  test('few points are kept as they are, and fewer than four are its ends', () => {
    expect(stepsOf(downsample(curve(5, Math.sin), 5))).toEqual([0, 1, 2, 3, 4])
    expect(stepsOf(downsample(curve(5, Math.sin), 3))).toEqual([0, 4])
    expect(stepsOf(downsample(curve(5, Math.sin), 1))).toEqual([4])
  })
})
