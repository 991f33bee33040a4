import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { transaction } from '../../platform/db/transaction.ts'

let platform: TestPlatform
let developer: TestClient
let stranger: TestClient
beforeAll(async () => {
  platform = await startTestPlatform()
  developer = await platform.member('default', 'DEVELOPER')
  await platform.tenant('other')
  stranger = await platform.member('other', 'ADMIN')
})
afterAll(() => platform?.stop())

describe('GET /api/v1/datasets', () => {
  test('200 filters, searches, sorts and pages', async () => {
    const source = 'list-test'
    for (const [name, records] of [
      ['b', 3],
      ['a', 1],
      ['c_%', 2],
    ] as const)
      await developer.post('/api/v1/datasets', { id: `list-${name[0]}`, name, source, record_count: records })
    const names = async (query: string) => {
      const { body } = await developer.get(`/api/v1/datasets?source=${source}&${query}`)
      return body.items.map((item: { name: string }) => item.name)
    }
    expect(await names('sort=name')).toEqual(['a', 'b', 'c_%'])
    expect(await names('sort=records')).toEqual(['b', 'c_%', 'a'])
    expect(await names('sort=records&order=asc')).toEqual(['a', 'c_%', 'b'])
    expect(await names('')).toEqual(['c_%', 'a', 'b'])
    expect(await names('sort=name&page=2&page_size=2')).toEqual(['c_%'])
    expect(await names('page=9')).toEqual([])
    expect(await names('q=_%25')).toEqual(['c_%'])
    expect(await names('q=LIST-A')).toEqual(['a'])
    expect(await names('status=FROZEN')).toEqual([])
    expect(await names('external_source=01890000-0000-7000-8000-000000000000')).toEqual([])
    const { body } = await developer.get(`/api/v1/datasets?source=${source}&page=9`)
    expect(body).toMatchObject({ total: 3, page: 9, page_size: 20 })
    expect((await stranger.get(`/api/v1/datasets?source=${source}`)).body.total).toBe(0)
  })

  test('422 for an unknown state, 400 for an unknown sort key', async () => {
    expect((await developer.get('/api/v1/datasets?status=READ')).status).toBe(422)
    const reply = await developer.get('/api/v1/datasets?sort=colour')
    expect(reply.status).toBe(400)
    expect(reply.body.detail.allowed).toEqual(['created_at', 'name', 'records', 'size', 'validation'])
  })

  test('200 with the right pages and total where nearly all of many match, in any case, never across two fields', async () => {
    const tenant = await platform.tenant('many')
    const member = await platform.member('many', 'VIEWER')
    await transaction(platform.services.db, 'system', (tx) =>
      sql`
        insert into datasets (tenant_id, id, name, source, created_by, created_at, record_count)
        select ${tenant.id}, 'set-' || n, 'Ärea ' || n, case when n % 2 = 0 then 'Café' end, 'test',
          now() - n * interval '1 s', n % 7 from generate_series(1, 2500) n`.execute(tx),
    )
    const ids = async (query: string) => {
      const { body } = await member.get(`/api/v1/datasets?${query}`)
      return [body.total, ...body.items.map((item: { id: string }) => item.id)]
    }
    expect(await ids('q=äREA&page_size=2')).toEqual([2500, 'set-1', 'set-2'])
    expect(await ids('q=area&page_size=2')).toEqual([0])
    expect(await ids('q=Set-&page_size=2&page=1250')).toEqual([2500, 'set-2499', 'set-2500'])
    expect(await ids('q=set-&sort=records&order=asc&page_size=2&page=2')).toEqual([2500, 'set-1015', 'set-1022'])
    expect(await ids('q=set-&source=Café&page_size=1&page=1250')).toEqual([1250, 'set-2500'])
    expect(await ids('q=CAFÉ&page_size=1')).toEqual([1250, 'set-2'])
    expect(await ids('q=2500set')).toEqual([0])
    expect(await ids('q=set-2499')).toEqual([1, 'set-2499'])
    expect((await stranger.get('/api/v1/datasets?q=set-')).body.total).toBe(0)
  })
})
