import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { type Entry, writeEntries } from './audit.fixture.ts'
import { sealAudit } from './chain.ts'

let platform: TestPlatform
let acme: { id: string; code: string }
let administrator: TestClient
beforeAll(async () => {
  platform = await startTestPlatform()
  acme = await platform.tenant('acme')
  await platform.tenant('other')
  administrator = await platform.member('acme', 'ADMIN')
})
afterAll(() => platform?.stop())

const write = (entries: Entry[], tenant: { id: string; code: string } | null = acme) =>
  writeEntries(platform, tenant, entries)

const seal = () =>
  sealAudit({ ...platform.services, kind: 'system', scope: 'system', actor: null, requestId: 't', audit: null })

/** Targets of a page, and its total. */
async function search(query: string, client = administrator, path = '/api/v1/settings/audit') {
  const { body } = await client.get(`${path}?${query}`)
  return { total: body.total, targets: body.items.map((entry: { target: string }) => entry.target) }
}

describe('the total of a page', () => {
  test('is the same before and after sealing, by whatever it is filtered', async () => {
    await write([{ action: 'sum.made' }, { action: 'sum.made', target: 'one' }, { action: 'sum.lost' }])
    const totals = () =>
      Promise.all(
        ['action=sum.', 'action=sum.made', 'action=sum.&target=one', 'action=sum.&since=2025-01-01', ''].map(
          async (query) => (await administrator.get(`/api/v1/settings/audit?${query}`)).body.total,
        ),
      )
    const before = await totals()
    expect(before.slice(0, 4)).toEqual([3, 2, 1, 3])
    await seal()
    expect(await totals()).toEqual(before)
    const everything = (await platform.admin.get('/api/v1/system/audit')).body.total
    expect(everything).toBe((await platform.admin.get('/api/v1/system/audit?since=3650d')).body.total)
  })
})

describe('GET /api/v1/settings/audit by actor and target', () => {
  test('200 finds the same before and after sealing, newest first, page by page', async () => {
    const day = (n: number) => `2026-05-0${n}T00:00:00Z`
    const [one, two] = ['Vase Ä1', 'vase ä2']
    await write([
      { at: day(1), target: one, actorEmail: 'eve@x.example', action: 'vase.make' },
      { at: day(2), target: two, actorEmail: 'eve@x.example', action: 'vase.make' },
      { at: day(3), target: one, actorEmail: 'fay@x.example', action: 'vase.break' },
    ])
    const pages = async () => [
      await search('target=VASE%20%C3%A4'),
      await search('target=vase&page_size=1'),
      await search('target=vase&page_size=1&page=3'),
      await search('target=vase&page_size=1&page=4'),
      await search('target=vase&actor=eve'),
      await search('actor=eve&action=vase.&since=2026-05-02'),
      await search('target=vase&action=vase.b'),
      await search('target=vase&until=2026-05-02'),
      await search('target=no%20such'),
    ]
    const expected = [
      { total: 3, targets: [one, two, one] },
      { total: 3, targets: [one] },
      { total: 3, targets: [one] },
      { total: 3, targets: [] },
      { total: 2, targets: [two, one] },
      { total: 1, targets: [two] },
      { total: 1, targets: [one] },
      { total: 1, targets: [one] },
      { total: 0, targets: [] },
    ]
    expect(await pages()).toEqual(expected)
    await seal()
    expect(await pages()).toEqual(expected)
    await write([{ at: day(4), target: two }])
    expect(await search('target=vase')).toEqual({ total: 4, targets: [two, one, two, one] })
  })

  test('200 finds what is too long for any index, before and after sealing', async () => {
    const long = `${'€'.repeat(3000)} needle`
    await write([{ target: long }])
    expect(await search('target=needle')).toEqual({ total: 1, targets: [long] })
    await seal()
    expect(await search('target=needle')).toEqual({ total: 1, targets: [long] })
    expect((await search('target=needle&since=2025-01-01')).total).toBe(1)
  })

  test('200 with more different targets than are looked up one by one', async () => {
    await write(
      Array.from({ length: 2500 }, (_, n) => ({
        at: new Date(Date.parse('2026-06-01T00:00:00Z') + n).toISOString(),
        target: `brick ${n}`,
      })),
    )
    await seal()
    await write([{ at: '2026-07-01T00:00:00Z', target: 'brick new' }])
    expect(await search('target=brick&page_size=2')).toEqual({ total: 2501, targets: ['brick new', 'brick 2499'] })
    expect(await search('target=brick&since=2026-06-02')).toEqual({ total: 1, targets: ['brick new'] })
    expect(await search('target=brick%20249')).toMatchObject({ total: 11 })
  })

  test('200 keeps to the tenant; of all tenants and of the system for global administrators', async () => {
    const tenants = (await platform.admin.get('/api/v1/settings/tenants')).body.items
    const other = tenants.find((tenant: { code: string }) => tenant.code === 'other')
    await write([{ target: 'shared name', at: '2026-01-03T00:00:00Z' }])
    await write([{ target: 'shared name', at: '2026-01-02T00:00:00Z' }], other)
    await write([{ target: 'shared name, system', at: '2026-01-01T00:00:00Z' }], null)
    for (const sealed of [false, true]) {
      if (sealed) await seal()
      expect(await search('target=shared%20name')).toEqual({ total: 1, targets: ['shared name'] })
      const system = (query: string) => search(query, platform.admin, '/api/v1/system/audit')
      expect((await system('target=shared%20name')).targets).toEqual([
        'shared name',
        'shared name',
        'shared name, system',
      ])
      expect((await system('target=shared%20name')).total).toBe(3)
      expect((await system('target=shared%20name&tenant=other')).total).toBe(1)
    }
  })

  test('% and _ and \\ are letters', async () => {
    await write([{ target: '100%_a\\b' }, { target: '100xya/b' }])
    await seal()
    for (const text of ['100%', '%_a', 'a\\b'])
      expect((await search(`target=${encodeURIComponent(text)}`)).total, text).toBe(1)
  })
})
