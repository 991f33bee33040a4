import { describe, expect, test } from 'vitest'
import { deal } from './sample-split.ts'

describe('deal', () => {
  const split = { mode: 'ratio', validation_fraction: 0, train: 0.7, val: 0.2, test: 0.1, seed: 1 } as const
  const paths = Array.from({ length: 100 }, (_, index) => `rose/${index}.jpg`)
  const counts = (dealt: [string, string][]) => Object.groupBy(dealt, ([, part]) => part)

  test('keeps the shares, and follows from the seed and the paths alone', () => {
    const dealt = deal(paths, split)
    const { train, val, test: held } = counts(dealt)
    expect([train?.length, val?.length, held?.length]).toEqual([70, 20, 10])
    expect(new Map(deal(paths.toReversed(), split))).toEqual(new Map(dealt))
    expect(new Map(deal(paths, { ...split, seed: 2 }))).not.toEqual(new Map(dealt))
  })

  test('a class of one sample is trained on', () => {
    expect(deal(['rose/1.jpg'], { ...split, train: 0.1, val: 0.8 })).toEqual([['rose/1.jpg', 'train']])
  })
})
