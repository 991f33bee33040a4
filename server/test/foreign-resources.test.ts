import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createFeatures, operationsOf } from '../src/app.ts'
import { tokenSigner } from '../src/features/identity/tokens.ts'
import { fillEveryTable } from '../src/features/tenants/filled-tenant.fixture.ts'
import { loadConfig } from '../src/platform/config.ts'
import type { Operation } from '../src/platform/http/operation.ts'
import { createMetrics } from '../src/platform/metrics.ts'
import { startTestPlatform, type TestClient, type TestPlatform } from './harness.ts'
import { callRoute, faultsOf, type RouteReply } from './route-calls.ts'

// A tenant has a row of every kind. To somebody from another tenant, who holds every permission there and knows the ids,
// each answers exactly as one that does not exist.

const operations = operationsOf(
  createFeatures({ config: loadConfig({}), signer: tokenSigner(new Uint8Array(32)), metrics: createMetrics() }),
).filter(({ access, path }) => access.level === 'tenant' && path.includes('{'))

let platform: TestPlatform
let insider: TestClient
let outsider: TestClient
/** Ids and names of the rows of the one tenant. */
let keys: string[]
beforeAll(async () => {
  platform = await startTestPlatform()
  const { id } = await platform.tenant('acme')
  await platform.tenant('other')
  insider = await platform.member('acme', 'ADMIN')
  outsider = await platform.member('other', 'ADMIN')
  await fillEveryTable(platform.database.ownerUrl, id)
  // What stands there for want of something better is no name of an endpoint or of a repository.
  await asOwner("update serving_endpoints set name = 'served'; update registry_repositories set name = 'acme/stored'")
  keys = [...(await keysOf(id)), 'stored']
})
afterAll(() => platform?.stop())

async function asOwner<T extends object>(statement: string, values?: unknown[]): Promise<T[]> {
  const client = new pg.Client({ connectionString: platform.database.ownerUrl })
  await client.connect()
  try {
    await client.query("set app.system = 'on'")
    return (await client.query<T>(statement, values)).rows
  } finally {
    await client.end()
  }
}

async function keysOf(tenantId: string): Promise<string[]> {
  const columns = await asOwner<{ table: string; column: string }>(`
    select c.relname as table, a.attname as column from pg_class c
    join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant_id'
    join pg_attribute a on a.attrelid = c.oid and a.attname in ('id', 'name', 'public_id', 'run_id')
      and a.atttypid in ('uuid'::regtype, 'text'::regtype)
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.relname !~ '^(memberships|audit|runs?$)'`)
  const found = new Set<string>()
  for (const { table, column } of columns) {
    const rows = await asOwner<{ key: string }>(`select ${column}::text as key from ${table} where tenant_id = $1`, [
      tenantId,
    ])
    for (const { key } of rows) if (key) found.add(key)
  }
  return [...found]
}

const isUuid = (text: string) => /^[0-9a-f]{8}-[0-9a-f]{4}-/.test(text)
/** A key of the same shape that nothing has. */
const twinOf = (key: string) =>
  isUuid(key)
    ? '77777777-7777-7777-8777-777777777777'
    : key.replace(/[a-z]/g, 'q').replace(/[A-Z]/g, 'Q').replace(/\d/g, '7')

/** Where ids alone are taken, only those are tried. */
function keysFor(operation: Operation): string[] {
  const [, first] = /\{(\w+)/.exec(operation.path)!
  const { format } = operation.params.properties[first!] as { format?: string }
  return format === 'uuid' ? keys.filter(isUuid) : keys
}

/** The address with the key as its first parameter; the others are such as any row could have. */
function addressWith(operation: Operation, key: string): string {
  let place = 0
  return operation.path.replace(/\{(\w+)\+?\}/g, (_all, name: string) => {
    if (place++ === 0) return encodeURIComponent(key)
    const { format, enum: values } = operation.params.properties[name] as { format?: string; enum?: string[] }
    return values?.[0] ?? (format === 'uuid' ? keys.find(isUuid)! : '1')
  })
}

const headersOf = (client: TestClient, tenant: string) => ({
  authorization: `Bearer ${client.token}`,
  'x-tenant': tenant,
})

/** What was asked for may come back in the answer; nothing else of it may. */
const withoutKey = ({ status, text, body }: RouteReply, key: string) =>
  `${status} ${text.replaceAll(body?.error_id ?? '-', '').replaceAll(key, '')}`

// A limit for what hangs: the number of calls grows with the product.
const timeout = 600_000

describe('every operation on something of a tenant', { timeout }, () => {
  test('answers somebody of another tenant exactly as if there were nothing', async () => {
    expect(keys.length).toBeGreaterThan(30)
    const headers = headersOf(outsider, 'other')
    const faults = await faultsOf(operations, async (operation) => {
      const answers = new Map<string, Promise<RouteReply>>()
      const answerTo = (key: string) => {
        if (!answers.has(key))
          answers.set(key, callRoute(platform.url, operation, headers, { address: addressWith(operation, key) }))
        return answers.get(key)!
      }
      for (const key of keysFor(operation)) {
        const [reply, nothing] = [await answerTo(key), await answerTo(twinOf(key))]
        if (withoutKey(reply, key) !== withoutKey(nothing, twinOf(key)))
          return `${key}: ${reply.status} ${reply.text.slice(0, 150)} in place of ${nothing.status} ${nothing.text.slice(0, 150)}`
      }
      return null
    })
    expect(faults).toEqual([])
  })

  test('and the keys that were tried do open something to who may', async () => {
    const headers = headersOf(insider, 'acme')
    const reads = operations.filter(({ method, path }) => method === 'GET' && !path.includes('/stream/'))
    const opened = new Set<string>()
    await faultsOf(reads, async (operation) => {
      for (const key of keysFor(operation)) {
        const { status } = await callRoute(platform.url, operation, headers, { address: addressWith(operation, key) })
        if (status !== 404 && status !== 422) opened.add(operation.id)
      }
      return null
    })
    expect(opened.size).toBeGreaterThan(reads.length / 3)
  })
})
