import { expect, test } from 'vitest'
import { interruptUploads } from './dataset-interruptions.ts'

test('uploads broken off by client and server end with every byte in place', { timeout: 600_000 }, async () => {
  const tally = await interruptUploads(6, 20261120, () => undefined)
  expect(tally).toMatchObject({ uploads: 6 })
  expect(tally.broken + tally.kills).toBeGreaterThan(0)
})
