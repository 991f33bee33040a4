import { expect, test } from 'vitest'
import { modelNameOf } from './experiment-names.ts'

test.each([
  ['Red, green, blue', 'Red-green-blue'],
  ['  --Äpfel & Birnen!! ', 'Apfel-Birnen'],
  ['꽃', 'model'],
  ['v1.0_final', 'v1.0_final'],
  [`${'x'.repeat(127)}.y`, 'x'.repeat(127)],
])('modelNameOf(%j) can be part of an address: %j', (name, expected) => {
  expect(modelNameOf(name)).toBe(expected)
  expect(expected).toMatch(/^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$/)
})
