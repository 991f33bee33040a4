import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createFeatures } from '../src/app.ts'
import { tokenSigner } from '../src/features/identity/tokens.ts'
import { toggleCatalogue } from '../src/features/tenants/tenant-features.ts'
import { loadConfig } from '../src/platform/config.ts'
import { createMetrics } from '../src/platform/metrics.ts'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from './harness.ts'
import { callRoute, faultsOf } from './route-calls.ts'

// A tenant that is switched off, or has switched a feature off, is refused wherever it could come in: by every operation
// that the feature governs, and by the protocols that no operation describes. What it does not govern stays open.

const features = createFeatures({
  config: loadConfig({}),
  signer: tokenSigner(new Uint8Array(32)),
  metrics: createMetrics(),
})
const named = new Map(features.map((feature) => [feature.name, feature]))
const governing = toggleCatalogue(features).filter(({ key }) => named.has(key))
const operationsOfTenants = features.flatMap(({ name, operations }) =>
  (operations ?? []).filter(({ access }) => access.level === 'tenant').map((operation) => ({ name, operation })),
)

let platform: TestPlatform
let id: string
let member: TestClient
let headers: Record<string, string>
let registry: string
let tracker: string
beforeAll(async () => {
  platform = await startTestPlatform()
  id = (await platform.tenant('acme')).id
  member = await platform.member('acme', 'ADMIN')
  headers = { authorization: `Bearer ${member.token}`, 'x-tenant': 'acme' }
  const tokenOf = async (path: string) => (await member.post(path, { name: 'mine' })).body.token as string
  registry = await tokenOf('/api/v1/registry/tokens')
  tracker = await tokenOf('/api/v1/tracker/tokens')
})
afterAll(() => platform?.stop())

const change = async (patch: object) => {
  expect((await platform.admin.patch(`/api/v1/settings/tenants/${id}`, patch)).status).toBe(200)
}
/** What the protocols answer to a token of the tenant. */
const protocols = async () => {
  const basic = `Basic ${Buffer.from(`${member.email}:${registry}`).toString('base64')}`
  const oci = await platform.anonymous('GET', '/v2/', { headers: { authorization: basic } })
  const search = '/tracker/api/2.0/mlflow/experiments/search?max_results=1'
  const mlflow = await platform.anonymous('GET', search, { headers: { authorization: `Bearer ${tracker}` } })
  return { registry: oci.status, tracker: mlflow.status }
}

/** Waits for it: the registry relies on a look at the database for a second. */
async function answering(wanted: { registry: number; tracker: number }): Promise<void> {
  let seen = await protocols()
  await eventually(async () => {
    seen = await protocols()
    return seen.registry === wanted.registry && seen.tracker === wanted.tracker
  }).catch(() => expect(seen).toEqual(wanted))
}

// A limit for what hangs: the number of calls grows with the product.
const timeout = 600_000

describe('every feature that can be switched off', { timeout }, () => {
  test('there are some, and each governs operations', () => {
    expect(governing.map(({ key }) => key)).toEqual(expect.arrayContaining(['tracker', 'registry', 'serving']))
    expect(governing.filter(({ key }) => !operationsOfTenants.some(({ name }) => name === key))).toEqual([])
  })

  for (const { key } of governing) {
    test(`${key}: 403 with detail.feature from each of its operations and from no other`, async () => {
      await change({ features: { [key]: false } })
      const faults = await Promise.all(
        [true, false].map((governed) =>
          faultsOf(
            operationsOfTenants.filter(({ name }) => (name === key) === governed).map(({ operation }) => operation),
            async (operation) => {
              const { status, body, text } = await callRoute(platform.url, operation, headers)
              const refused = status === 403 && body?.detail?.feature === key
              return refused === governed ? null : `${status}: ${text.slice(0, 200)}`
            },
          ),
        ),
      )
      expect(faults.flat()).toEqual([])
      // Whoever governs everything is bound by it too: it is the tenant that has no such feature.
      const [one] = operationsOfTenants.filter(({ name }) => name === key)
      const administrator = { authorization: `Bearer ${platform.admin.token}`, 'x-tenant': 'acme' }
      expect((await callRoute(platform.url, one!.operation, administrator)).status).toBe(403)
    })
  }

  test('its protocol refuses the tokens of the tenant within a second, and takes them again afterwards', async () => {
    await change({ features: {} })
    await answering({ registry: 200, tracker: 200 })
    await change({ features: { registry: false } })
    await answering({ registry: 403, tracker: 200 })
    await change({ features: { tracker: false } })
    await answering({ registry: 200, tracker: 403 })
    await change({ features: {} })
    await answering({ registry: 200, tracker: 200 })
  })

  test('the refusal of a change is in the audit', async () => {
    await change({ features: { registry: false } })
    await member.post('/api/v1/registry/tokens', { name: 'refused' })
    await change({ features: {} })
    const { items } = (await member.get('/api/v1/settings/audit?action=registry.')).body
    expect(items[0]).toMatchObject({ outcome: 'denied', actor: member.email })
  })
})

describe('a tenant that is switched off', () => {
  test('its tokens stop, and work again when it is switched on', async () => {
    await change({ is_active: false })
    expect((await member.get('/api/v1/settings/roles')).status).toBe(403)
    await answering({ registry: 403, tracker: 403 })
    await change({ is_active: true })
    expect((await member.get('/api/v1/settings/roles')).status).toBe(200)
    await answering({ registry: 200, tracker: 200 })
  })
})
