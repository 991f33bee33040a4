import { expect, test } from 'vitest'
import { wrongSecrets } from './wrong-secrets.ts'

test('different wrong secrets of one address count, for a minute', () => {
  let now = 0
  const wrong = wrongSecrets(3, () => now)
  for (const secret of ['a', 'b', 'a', 'a']) wrong.add('192.0.2.1', secret)
  expect([wrong.waitSeconds('192.0.2.1'), wrong.has('192.0.2.1', 'a'), wrong.has('192.0.2.2', 'a')]).toEqual([
    0,
    true,
    false,
  ])
  now = 20_000
  wrong.add('192.0.2.1', 'c')
  expect(wrong.waitSeconds('192.0.2.1')).toBe(40)
  expect(wrong.waitSeconds('192.0.2.2')).toBe(0)
  now = 60_000
  expect([wrong.waitSeconds('192.0.2.1'), wrong.has('192.0.2.1', 'a')]).toEqual([0, false])
})

test('what is remembered has a bound, whatever the number of addresses', () => {
  const wrong = wrongSecrets(1, () => 0)
  for (let n = 0; n < 10_001; n++) wrong.add(`address ${n}`, 'x')
  expect(wrong.waitSeconds('address 0')).toBe(0)
  expect(wrong.waitSeconds('address 10000')).toBeGreaterThan(0)
})
