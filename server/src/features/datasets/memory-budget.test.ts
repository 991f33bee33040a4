import { setImmediate as breathe } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { memoryBudget } from './memory-budget.ts'

test('what runs at once never holds more than there is, and everything gets its turn in order', async () => {
  const hold = memoryBudget(100)
  let [now, most] = [0, 0]
  const order: number[] = []
  const works = [60, 30, 100, 10, 1000, 50, 50].map((bytes, index) =>
    hold(bytes, async () => {
      order.push(index)
      now += Math.min(bytes, 100)
      most = Math.max(most, now)
      await breathe()
      now -= Math.min(bytes, 100)
    }),
  )
  await Promise.all(works)
  expect(most).toBeLessThanOrEqual(100)
  expect(order).toEqual([0, 1, 2, 3, 4, 5, 6])
})

test('what fails gives back what it held, and passes its failure on', async () => {
  const hold = memoryBudget(10)
  const failing = hold(10, () => Promise.reject(new Error('torn')))
  await expect(failing).rejects.toThrow('torn')
  expect(await hold(10, async () => 'next')).toBe('next')
})
