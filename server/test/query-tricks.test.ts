import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createFeatures, operationsOf } from '../src/app.ts'
import { tokenSigner } from '../src/features/identity/tokens.ts'
import { loadConfig } from '../src/platform/config.ts'
import type { Operation } from '../src/platform/http/operation.ts'
import { createMetrics } from '../src/platform/metrics.ts'
import { startTestPlatform, type TestClient, type TestPlatform } from './harness.ts'
import { addressOf, callRoute, faultsOf, refusal } from './route-calls.ts'

// What a request says twice, in another case or in another encoding never opens what saying it once does not.

const operations = operationsOf(
  createFeatures({ config: loadConfig({}), signer: tokenSigner(new Uint8Array(32)), metrics: createMetrics() }),
)
const ofTenants = operations.filter(({ access }) => access.level === 'tenant')
const guarded = operations.filter(({ access }) => access.level !== 'none')

let platform: TestPlatform
let member: TestClient
beforeAll(async () => {
  platform = await startTestPlatform()
  await platform.tenant('acme')
  await platform.tenant('other')
  member = await platform.member('acme', 'ADMIN')
})
afterAll(() => platform?.stop())

const own = () => ({ authorization: `Bearer ${member.token}` })
const call = (operation: Operation, headers: Record<string, string | string[]>, query = '') =>
  callRoute(platform.url, operation, headers, { query })

// A limit for what hangs: the number of calls grows with the product.
const timeout = 600_000

describe('every operation of a tenant', { timeout }, () => {
  test('404 as soon as the tenant that counts is another one, however often and wherever tenants are named', async () => {
    const foreign: [Record<string, string | string[]>, string][] = [
      [{ 'x-tenant': 'other' }, 'tenant=acme'],
      [{}, 'tenant=other&tenant=acme'],
      [{}, 'tenant=OTHER'],
      [{ 'x-tenant': ' Other ' }, ''],
      [{}, 'tenant=other%00'],
      [{}, 'tenant[]=acme&tenant=other'],
      [{ 'x-tenant': ['other', 'acme'] }, ''],
    ]
    const faults = await faultsOf(ofTenants, async (operation) => {
      for (const [headers, query] of foreign) {
        const fault = refusal(await call(operation, { ...own(), ...headers }, query), 404, 'not_found')
        if (fault) return `${JSON.stringify(headers)} ${query}: ${fault}`
      }
      return null
    })
    expect(faults).toEqual([])
  })

  test('the blank header does not hide the tenant of the query', async () => {
    const faults = await faultsOf(ofTenants, async (operation) =>
      refusal(await call(operation, { ...own(), 'x-tenant': ' ' }, 'tenant=other'), 404, 'not_found'),
    )
    expect(faults).toEqual([])
  })
})

describe('every operation', { timeout }, () => {
  test('takes a parameter of the query that comes twice without a failure of ours', async () => {
    const faults = await faultsOf(guarded, async (operation) => {
      const names = Object.keys(operation.query?.properties ?? {})
      const query = [...names, ...names].map((name, place) => `${name}=${place}`).join('&')
      const { status, text } = await call(operation, { ...own(), 'x-tenant': 'acme' }, query)
      return status >= 500 && !(status in operation.errors) ? `${status}: ${text.slice(0, 200)}` : null
    })
    expect(faults).toEqual([])
  })

  test('401 in whatever case or encoding the address is written, or there is no such address', async () => {
    const faults = await faultsOf(guarded, async (operation) => {
      const plain = addressOf(operation)
      const spellings = [
        plain.toUpperCase(),
        plain.replace('/api/', '/api//'),
        plain.replace('/api/', '/%61pi/'),
        plain.replace('/v1/', '/v1/./'),
        plain.replace('/v1/', '/x/..%2fv1/'),
        plain.replace('/v1/', '%2fv1%2f'),
        `${plain}/`,
        `${plain};a=b`,
        `/${plain}`,
      ]
      for (const address of spellings.filter((spelling) => spelling !== plain)) {
        const { status, text } = await callRoute(platform.url, operation, {}, { address })
        if (![400, 401, 404, 405].includes(status)) return `${address}: ${status} ${text.slice(0, 100)}`
      }
      return null
    })
    expect(faults).toEqual([])
  })
})
