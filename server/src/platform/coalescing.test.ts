import { describe, expect, test } from 'vitest'
import { coalescing } from './coalescing.ts'

/** Work that is done when told, and what it was given. */
function held(outcome: (item: number) => number = (item) => item) {
  const batches: number[][] = []
  const release: (() => void)[] = []
  const work = async (items: number[]) => {
    batches.push(items)
    await new Promise<void>((resolve) => release.push(resolve))
    return items.map(outcome)
  }
  return { batches, release, work }
}
const turn = () => new Promise((resolve) => setImmediate(resolve))
const always = { fits: () => true, isOfOne: () => true, lanes: 1 }

describe('coalescing', () => {
  test('what comes while a batch is under way goes together next, and each hears its own outcome', async () => {
    const { batches, release, work } = held((item) => item * 10)
    const call = coalescing({ ...always, work })
    const first = call(1)
    await turn()
    const others = [call(2), call(3), call(4)]
    await turn()
    expect(batches).toEqual([[1]])
    release[0]!()
    expect(await first).toBe(10)
    await turn()
    expect(batches).toEqual([[1], [2, 3, 4]])
    release[1]!()
    expect(await Promise.all(others)).toEqual([20, 30, 40])
  })

  test('what does not fit waits for the next batch, and nothing is left behind', async () => {
    const batches: number[][] = []
    const work = async (items: number[]) => {
      batches.push(items)
      return items
    }
    const call = coalescing({ ...always, work, fits: (batch, item) => !batch.includes(item) })
    expect(await Promise.all([1, 1, 2, 1].map((item) => call(item)))).toEqual([1, 1, 2, 1])
    expect(batches).toEqual([[1, 2], [1], [1]])
  })

  test('a call that fails takes no other with it; a fault of all is told to all at once', async () => {
    const tried: number[][] = []
    const work = async (items: number[]) => {
      tried.push(items)
      if (items.includes(13)) throw new Error('thirteen')
      return items
    }
    const alone = coalescing({ ...always, work })
    const results = await Promise.allSettled([1, 13, 2].map((item) => alone(item)))
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    tried.length = 0
    const together = coalescing({ ...always, work, isOfOne: () => false })
    const lost = await Promise.allSettled([1, 13, 2].map((item) => together(item)))
    expect(lost.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    expect(tried).toEqual([[1, 13, 2]])
    expect(await together(5)).toEqual(5)
  })

  test('with two lanes a batch that hangs does not keep the next one waiting', async () => {
    const { batches, release, work } = held()
    const call = coalescing({ ...always, work, lanes: 2 })
    const hanging = call(1)
    await turn()
    const second = call(2)
    await turn()
    expect(batches).toEqual([[1], [2]])
    release[1]!()
    expect(await second).toBe(2)
    release[0]!()
    expect(await hanging).toBe(1)
  })
})
