import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { type Entry, writeEntries } from './audit.fixture.ts'

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

describe('every change', () => {
  test('leaves an entry with actor, address, target, outcome and what changed, and no secret', async () => {
    const member = await platform.member('acme', 'VIEWER')
    await administrator.patch(`/api/v1/settings/users/${member.userId}/role`, { role: 'OPERATOR' })
    const { body } = await administrator.get('/api/v1/settings/audit?action=member.assign_role')
    expect(body.items[0]).toMatchObject({
      action: 'member.assign_role',
      outcome: 'success',
      actor: administrator.email,
      actor_id: administrator.userId,
      target: member.email,
      tenant: 'acme',
      ip: '127.0.0.1',
      detail: { role: 'OPERATOR', former_role: 'VIEWER' },
    })
  })

  test('that is refused leaves one too', async () => {
    const member = await platform.member('acme', 'VIEWER')
    await member.post('/api/v1/settings/users/invite', { email: 'a@b.c', role: 'ADMIN' })
    const { body } = await administrator.get(`/api/v1/settings/audit?actor=${member.email}`)
    expect(body.items[0]).toMatchObject({ action: 'member.invite', outcome: 'denied' })
  })
})

describe('GET /api/v1/settings/audit', () => {
  test('200 filters by prefix, part and window: since counts, until does not', async () => {
    await write([
      { at: '2026-02-01T00:00:00Z', action: 'wine.pour', actorEmail: 'ada@x.example', target: 'Glass_1' },
      { at: '2026-02-02T00:00:00Z', action: 'wine.drink', actorEmail: 'bob@x.example', target: 'Glass21' },
      { at: '2026-02-03T00:00:00Z', action: 'winery.open', actorEmail: 'ada@x.example' },
    ])
    const actions = async (query: string) =>
      (await administrator.get(`/api/v1/settings/audit?${query}`)).body.items.map((e: { action: string }) => e.action)
    expect(await actions('action=wine')).toEqual(['winery.open', 'wine.drink', 'wine.pour'])
    expect(await actions('action=wine.')).toEqual(['wine.drink', 'wine.pour'])
    expect(await actions('action=wine.d')).toEqual(['wine.drink'])
    expect(await actions('action=wine&actor=ADA')).toEqual(['winery.open', 'wine.pour'])
    expect(await actions('action=wine&target=glass_')).toEqual(['wine.pour'])
    expect(await actions('action=wine&since=2026-02-01T00:00:00Z&until=2026-02-02T00:00:00Z')).toEqual(['wine.pour'])
    expect(await actions('action=wine&since=2026-02-02')).toEqual(['winery.open', 'wine.drink'])
  })

  test('200 finds an actor by name, as long as there is the account', async () => {
    const member = await platform.member('acme', 'ADMIN')
    await member.patch('/users/me', { full_name: 'Grace Hopper' })
    await member.post('/api/v1/settings/users/invite', { email: administrator.email, role: 'ADMIN' })
    const { body } = await administrator.get('/api/v1/settings/audit?actor=hopper')
    expect(body.items.map((entry: { actor: string }) => entry.actor)).toEqual([member.email])
  })

  test('200 shows no entry of the system and of no other tenant', async () => {
    await write([{ action: 'secret.system' }], null)
    const other = (await platform.admin.get('/api/v1/settings/tenants')).body.items.find(
      (tenant: { code: string }) => tenant.code === 'other',
    )
    await write([{ action: 'secret.foreign' }], other)
    expect((await administrator.get('/api/v1/settings/audit?action=secret')).body.total).toBe(0)
    expect((await platform.admin.get('/api/v1/system/audit?action=secret')).body.total).toBe(2)
    expect((await platform.admin.get('/api/v1/system/audit?action=secret&tenant=OTHER')).body.total).toBe(1)
  })

  test('403 for another tenant than the chosen one, 422 for a window or format that is none', async () => {
    expect((await administrator.get('/api/v1/settings/audit?tenant=other')).status).toBe(403)
    for (const query of ['since=yesterday', 'until=24h', 'since=2026-02-02&until=2026-02-01', 'format=xml'])
      expect((await administrator.get(`/api/v1/settings/audit?${query}`)).status, query).toBe(422)
  })
})

describe('GET /api/v1/settings/audit?format=', () => {
  test('csv is RFC 4180 with every entry, and no cell is a formula', async () => {
    await write([
      { at: '2026-03-01T00:00:00Z', action: 'csv.first', target: '=HYPERLINK("http://evil")', detail: { a: 'x,"y"' } },
      { at: '2026-03-02T00:00:00Z', action: 'csv.second', target: '+1\r\nforged,line', actorEmail: '@ada' },
      { at: '2026-03-03T00:00:00Z', action: 'csv.third', target: '-1' },
    ])
    const reply = await administrator.get('/api/v1/settings/audit?format=csv&action=csv.&page_size=1')
    expect(reply.headers.get('content-type')).toBe('text/csv; charset=utf-8')
    expect(reply.headers.get('content-disposition')).toMatch(/^attachment; filename="audit-acme-\d{8}T\d{6}Z\.csv"/)
    const lines = reply.text.split('\r\n')
    expect(lines[0]).toBe('id,at,tenant,actor,actor_id,ip,action,target,outcome,request_id,detail,seq')
    expect(reply.text.match(/csv\.(first|second|third)/g)).toEqual(['csv.third', 'csv.second', 'csv.first'])
    expect(reply.text).toContain(`,"'-1",`)
    expect(reply.text).toContain(`,"'=HYPERLINK(""http://evil"")",`)
    expect(reply.text).toContain(`,"'@ada",`)
    expect(reply.text).toContain(`,"'+1\r\nforged,line",`)
    expect(reply.text).toContain(`,"{""a"": ""x,\\""y\\""""}",`)
    expect(reply.text.endsWith('\r\n')).toBe(true)
  })

  test('ndjson is an entry a line, as the JSON pages show it', async () => {
    const page = (await administrator.get('/api/v1/settings/audit?action=csv.&format=json')).body
    const reply = await administrator.get('/api/v1/settings/audit?action=csv.&format=ndjson')
    const lines = reply.text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines).toEqual(page.items)
  })

  test('csv of many entries has each once, in order, across its looks', async () => {
    const start = Date.parse('2026-04-01T00:00:00Z')
    for (let block = 0; block < 5; block++)
      await write(
        Array.from({ length: 1000 }, (_, i) => ({
          at: new Date(start + Math.floor((block * 1000 + i) / 3)).toISOString(),
          action: 'many.made',
          target: String(block * 1000 + i),
        })),
      )
    const { text } = await administrator.get('/api/v1/settings/audit?format=csv&action=many.')
    const targets = text
      .trimEnd()
      .split('\r\n')
      .slice(1)
      .map((line) => Number(line.split(',')[7]!.replaceAll('"', '')))
    expect(targets.length).toBe(5000)
    expect(new Set(targets).size).toBe(5000)
    expect(targets.map((target) => Math.floor(target / 3))).toEqual(
      targets.map((target) => Math.floor(target / 3)).toSorted((a, b) => b - a),
    )
  })
})

describe('GET /api/v1/settings/audit/actions and GET /api/v1/system/audit/actions', () => {
  test('200 lists distinct actions in order, of the tenant, of all, or of one', async () => {
    await write([{ action: 'zebra.run' }, { action: 'zebra.run' }, { action: 'apple.eat' }])
    await write([{ action: 'quartz.cut' }], null)
    const own = (await administrator.get('/api/v1/settings/audit/actions')).body
    expect(own.items).toEqual([...new Set(own.items)].toSorted())
    expect(own.items).toEqual(expect.arrayContaining(['apple.eat', 'zebra.run']))
    expect(own.items).not.toContain('quartz.cut')
    expect(own.total).toBe(own.items.length)
    const all = (await platform.admin.get('/api/v1/system/audit/actions')).body.items
    expect(all).toEqual(expect.arrayContaining(['apple.eat', 'quartz.cut', 'zebra.run']))
    expect((await platform.admin.get('/api/v1/system/audit/actions?tenant=acme')).body).toEqual(own)
    expect((await platform.admin.get('/api/v1/system/audit/actions?tenant=none')).body.items).toEqual([])
  })
})
