import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestPlatform, testPassword } from '../../server/test/harness.ts'
import { fuzz } from './fuzz.ts'
import { prepareTenant } from './prepare.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startTestPlatform()
})
afterAll(() => platform?.stop())

describe('made-up requests to everything that /openapi.json describes', () => {
  test('no failure of ours, no undeclared status or shape, no leak, nothing of other tenants', async () => {
    const { faults, statuses } = await fuzz({
      url: new URL(platform.url),
      email: platform.admin.email,
      password: testPassword,
      seed: 1,
      requests: 1500,
      lanes: 1,
      prepare: (tenantCode) => prepareTenant(platform.services, tenantCode),
    })
    expect(faults).toEqual([])
    // Otherwise it would have found nothing because it reached nothing.
    const reached = [...statuses.values()].filter((counts) => [...counts.keys()].some((status) => status < 300))
    expect(reached.length).toBeGreaterThan(40)
  }, 300_000)
})
