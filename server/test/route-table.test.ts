import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createFeatures, operationsOf } from '../src/app.ts'
import { tokenSigner } from '../src/features/identity/tokens.ts'
import { loadConfig } from '../src/platform/config.ts'
import type { Operation } from '../src/platform/http/operation.ts'
import { documentPath } from '../src/platform/http/paths.ts'
import { permissionsOf, type Role, roleNames } from '../src/platform/http/permissions.ts'
import { createMetrics } from '../src/platform/metrics.ts'
import { startTestPlatform, type TestClient, type TestPlatform, testPassword } from './harness.ts'
import { callRoute, faultsOf, oddAddressOf, oddBodyOf, oddTexts, refusal } from './route-calls.ts'

// What holds for every operation of the product follows from its declaration; here it is asked of the running server.

const operations = operationsOf(
  createFeatures({ config: loadConfig({}), signer: tokenSigner(new Uint8Array(32)), metrics: createMetrics() }),
)
const guarded = operations.filter(({ access }) => access.level !== 'none')
const ofTenants = operations.filter(({ access }) => access.level === 'tenant')
const ofAdministrators = operations.filter(({ access }) => access.level === 'superuser')
const writes = guarded.filter(({ method }) => method !== 'GET')

let platform: TestPlatform
const members = {} as Record<Role, TestClient>
let outsider: TestClient
beforeAll(async () => {
  platform = await startTestPlatform()
  await platform.tenant('acme')
  await platform.tenant('other')
  for (const role of roleNames) members[role] = await platform.member('acme', role)
  outsider = await platform.member('other', 'ADMIN')
})
afterAll(() => platform?.stop())

const bearer = (client: TestClient, tenant?: string) => ({
  authorization: `Bearer ${client.token}`,
  ...(tenant ? { 'x-tenant': tenant } : {}),
})
const call = (operation: Operation, headers: Record<string, string>, query?: string) =>
  callRoute(platform.url, operation, headers, query ? { query } : {})
const withQuery = (name: string) => guarded.filter(({ query }) => query && name in query.properties)
/** Somebody who may: an administrator of the tenant, or of everything. */
const permitted = ({ access }: Operation) =>
  bearer(access.level === 'superuser' ? platform.admin : members.ADMIN, 'acme')

describe('every operation that needs a login', () => {
  test('401 without a credential, and with one that is malformed, made up or of another kind', async () => {
    const credentials: Record<string, string>[] = [
      {},
      { authorization: 'Bearer eyJhbGciOiJub25lIn0.e30.' },
      { authorization: `Bearer ${members.ADMIN.token.slice(0, -2)}xx` },
      { authorization: `Basic ${Buffer.from(`${members.ADMIN.email}:${testPassword}`).toString('base64')}` },
      { cookie: 'platformauth=none' },
    ]
    const faults = await faultsOf(guarded, async (operation) => {
      for (const headers of credentials) {
        const fault = refusal(await call(operation, { ...headers, 'x-tenant': 'acme' }), 401, 'unauthorized')
        if (fault) return fault
      }
      return null
    })
    expect(faults).toEqual([])
  })

  test('403 for writes with the login cookie from a page of another origin (CSRF)', async () => {
    const body = new URLSearchParams({ username: members.ADMIN.email, password: testPassword })
    const login = await platform.anonymous('POST', '/auth/cookie/login', { body })
    const cookie = login.headers.get('set-cookie')!.split(';')[0]!
    const faults = await faultsOf(writes, async (operation) =>
      refusal(await call(operation, { cookie, 'x-tenant': 'acme', origin: 'https://evil.example' }), 403, 'forbidden'),
    )
    expect(faults).toEqual([])
  })
})

describe('every operation of a tenant', () => {
  test('400 when no tenant is chosen, nor a blank one', async () => {
    const faults = await faultsOf(ofTenants, async (operation) => {
      const none = refusal(await call(operation, bearer(members.ADMIN)), 400, 'bad_request')
      return none ?? refusal(await call(operation, { ...bearer(members.ADMIN), 'x-tenant': ' ' }), 400, 'bad_request')
    })
    expect(faults).toEqual([])
  })

  test('404 for a tenant that is not there and for one of others, with the same bytes', async () => {
    const faults = await faultsOf(ofTenants, async (operation) => {
      const unknown = await call(operation, bearer(outsider, 'none'))
      const foreign = await call(operation, bearer(outsider, 'acme'))
      const fault = refusal(unknown, 404, 'not_found') ?? refusal(foreign, 404, 'not_found')
      const same = unknown.text.replace(unknown.body?.error_id, '') === foreign.text.replace(foreign.body?.error_id, '')
      return fault ?? (same ? null : 'the answers differ')
    })
    expect(faults).toEqual([])
  })

  test('404 when header and query choose different tenants and the one of the header is not the caller’s', async () => {
    const faults = await faultsOf(ofTenants, async (operation) =>
      refusal(await call(operation, bearer(outsider, 'acme'), 'tenant=other'), 404, 'not_found'),
    )
    expect(faults).toEqual([])
  })

  for (const role of roleNames) {
    test(`403 for ${role} exactly where the role lacks the permission, and no answer is a failure of ours`, async () => {
      const held = permissionsOf(role)
      const faults = await faultsOf(ofTenants, async (operation) => {
        const reply = await call(operation, bearer(members[role], 'acme'))
        const { access } = operation
        if (access.level === 'tenant' && !held.has(access.permission)) return refusal(reply, 403, 'forbidden')
        if (reply.status === 403) return `403 although ${role} may: ${reply.text.slice(0, 200)}`
        if (reply.status >= 500 && !(reply.status in operation.errors))
          return `${reply.status}: ${reply.text.slice(0, 300)}`
        return null
      })
      expect(faults).toEqual([])
    })
  }

  test('403 for members while the tenant is switched off', async () => {
    await platform.tenant('closed')
    const member = await platform.member('closed', 'ADMIN')
    const tenants = (await platform.admin.get('/api/v1/settings/tenants')).body.items
    const { id } = tenants.find(({ code }: { code: string }) => code === 'closed')
    await platform.admin.patch(`/api/v1/settings/tenants/${id}`, { is_active: false })
    const faults = await faultsOf(ofTenants, async (operation) =>
      refusal(await call(operation, bearer(member, 'closed')), 403, 'forbidden'),
    )
    expect(faults).toEqual([])
  })
})

describe('every operation of global administrators', () => {
  test('403 for an administrator of a tenant, before anything is looked up', async () => {
    const faults = await faultsOf(ofAdministrators, async (operation) =>
      refusal(await call(operation, bearer(members.ADMIN, 'acme')), 403, 'forbidden'),
    )
    expect(faults).toEqual([])
  })
})

describe('every list', () => {
  test('400 for an unknown sort key, with the allowed ones; 422 for an unknown order', async () => {
    const faults = await faultsOf(withQuery('sort'), async (operation) => {
      const reply = await call(operation, permitted(operation), 'sort=colour')
      const fault = refusal(reply, 400, 'bad_request')
      if (fault) return fault
      if (!reply.body.detail?.allowed?.length) return `no detail.allowed: ${reply.text}`
      return refusal(await call(operation, permitted(operation), 'order=up'), 422, 'unprocessable_entity')
    })
    expect(faults).toEqual([])
  })

  for (const [name, values] of Object.entries({
    page: ['0', '-1', 'x'],
    page_size: ['0', '201', '1.5'],
    limit: ['0'],
  })) {
    test(`422 that names ${name} when it is out of range`, async () => {
      const faults = await faultsOf(withQuery(name), async (operation) => {
        for (const value of values) {
          const reply = await call(operation, permitted(operation), `${name}=${value}`)
          const fault = refusal(reply, 422, 'unprocessable_entity')
          if (fault) return `${name}=${value}: ${fault}`
          const named = reply.body.detail.some(({ loc }: { loc: unknown[] }) => loc[0] === 'query' && loc[1] === name)
          if (!named) return `${name}=${value}: ${reply.text}`
        }
        return null
      })
      expect(faults).toEqual([])
    })
  }
})

describe('every operation, odd input', () => {
  // Of these the answer would say who is signed in with a password, over and over.
  const calm = guarded.filter(({ id }) => !id.startsWith('auth.'))

  const failuresOf = (text: string) =>
    faultsOf(calm, async (operation) => {
      const address = oddAddressOf(operation, text)
      const json = oddBodyOf(operation.bodyKind === 'json' ? operation.body : null, text)
      const reply = await callRoute(platform.url, operation, permitted(operation), { address, json })
      const ours = reply.status >= 500 && !(reply.status in operation.errors)
      return ours ? `${reply.status}: ${reply.text.slice(0, 200)}` : null
    })

  for (const text of oddTexts) {
    test(`no failure of ours for ${JSON.stringify(text.slice(0, 20))} wherever text goes`, async () => {
      expect(await failuresOf(text)).toEqual([])
    })
  }
})

describe('GET /openapi.json', () => {
  test('200 describes every operation once, with its success, its errors and a complete schema', async () => {
    const document = (await platform.anonymous('GET', '/openapi.json')).body
    const ids = operations.map(({ id }) => id)
    expect(ids.length).toBeGreaterThan(50)
    expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([])
    const faults = await faultsOf(operations, async (operation) => {
      const described = document.paths[documentPath(operation.path)]?.[operation.method.toLowerCase()]
      if (described?.operationId !== operation.id) return 'is not there'
      if (!described.responses[operation.success]) return `does not declare ${operation.success}`
      if (operation.access.level !== 'none' && !described.responses[401]) return 'does not declare 401'
      return described.summary ? null : 'has no summary'
    })
    expect(faults).toEqual([])
  })

  test('every reference leads to a component', async () => {
    const { text, body } = await platform.anonymous('GET', '/openapi.json')
    const references = new Set([...text.matchAll(/"#\/components\/schemas\/([^"]+)"/g)].map((match) => match[1]!))
    expect([...references].filter((name) => !(name in body.components.schemas))).toEqual([])
  })

  test('every pattern comes with words for those who miss it', async () => {
    const { text } = await platform.anonymous('GET', '/openapi.json')
    const wordless: string[] = []
    JSON.parse(text, (_key, value) => {
      if (typeof value?.pattern === 'string' && !value['x-must']) wordless.push(value.pattern)
      return value
    })
    expect(wordless).toEqual([])
  })
})
