import { describe, expect, test } from 'vitest'
import { eventually } from '../../../test/harness.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { createDraft, syncPath } from './followed-datasets.fixture.ts'
import { addWeb, developer, filesOf, scene, useSyncScene, web } from './sync-scene.fixture.ts'

useSyncScene(600)

describe('PUT /api/v1/datasets/{dataset_id}/sync', () => {
  test('200 gives the config back; null takes it away and leaves the files', async () => {
    web.put('a.txt', 'a')
    const source = await addWeb()
    const dataset = await scene.follow(source)
    await scene.syncNow(dataset)
    const { body } = await developer.put(syncPath(dataset), {
      source_id: source,
      prefix: 'x/y',
      include: ['*.jpg'],
      delete_missing: true,
      schedule: '0 3 * * *',
    })
    expect(body).toMatchObject({
      source_id: source,
      prefix: 'x/y/',
      include: ['*.jpg'],
      delete_missing: true,
      schedule: '0 3 * * *',
      updated_by: developer.email,
    })
    expect(new Date(body.next_at).getUTCHours()).toBe(3)
    expect((await developer.put(syncPath(dataset), { source_id: null })).body).toBeNull()
    expect((await developer.get(syncPath(dataset))).body).toMatchObject({ config: null, state: 'DONE' })
    expect(Object.keys(await filesOf(dataset))).toEqual(['a.txt'])
  })

  test.each([
    [{ source_id: '01890000-0000-7000-8000-000000000000' }, 'source_id'],
    [{ prefix: '../up' }, 'prefix'],
    [{ schedule: 'every day' }, 'schedule'],
    [{ schedule: '* * * * *' }, 'schedule'],
    [{ schedule: '0 0 30 2 *' }, 'schedule'],
    [{ schedule: '0 0 0 * * *' }, 'schedule'],
    [{ include: [''] }, 0],
  ])('422 for %j', async (change, field) => {
    const dataset = await createDraft(developer)
    const { status, body } = await developer.put(syncPath(dataset), { source_id: await addWeb(), ...change })
    expect(status).toBe(422)
    expect(body.detail[0].loc.at(-1)).toBe(field)
  })

  test('404 where there is no such dataset', async () => {
    for (const [method, json] of [
      ['GET', undefined],
      ['PUT', { source_id: null }],
      ['POST', undefined],
      ['DELETE', undefined],
    ] as const)
      expect((await developer.call(method, syncPath('nothing'), json ? { json } : {})).status).toBe(404)
  })
})

describe('GET /api/v1/datasets/{dataset_id}/sync/runs', () => {
  test('200 newest first', async () => {
    web.put('a.txt', 'a')
    const dataset = await scene.follow(await addWeb())
    const runs = [(await scene.syncNow(dataset)).run_id, (await scene.syncNow(dataset)).run_id]
    const { body } = await developer.get(`${syncPath(dataset)}/runs?page_size=1`)
    expect(body).toMatchObject({ total: 2, items: [{ run_id: runs[1], state: 'DONE' }] })
  })
})

describe('GET /api/v1/datasets/{dataset_id}/sync/runs/{run_id}/objects', () => {
  test('200 in the order of paths, page by page and by action', async () => {
    for (const name of ['c', 'a', 'b']) web.put(`${name}.txt`, name)
    web.mischief.set('b.txt', 'gone')
    const dataset = await scene.follow(await addWeb())
    const { run_id } = await scene.syncNow(dataset)
    const told = await scene.outcomes(dataset, run_id)
    expect(told).toMatchObject([
      { path: 'a.txt', action: 'add' },
      { path: 'b.txt', action: 'fail', reason: expect.stringContaining('404') },
      { path: 'c.txt', action: 'add' },
    ])
    expect(await scene.outcomes(dataset, run_id, '?page=2&page_size=2')).toMatchObject([{ path: 'c.txt' }])
    expect(await scene.outcomes(dataset, run_id, '?action=fail')).toHaveLength(1)
  })
})

describe('GET /api/v1/datasets/{dataset_id}/sync/runs/{run_id}', () => {
  test('200 with the counts; 404 for a run of another dataset', async () => {
    web.put('a.txt', 'a')
    const dataset = await scene.follow(await addWeb())
    const { run_id } = await scene.syncNow(dataset)
    const path = `/api/v1/datasets/${dataset}/sync/runs/${run_id}`
    expect((await developer.get(path)).body).toMatchObject({
      run_id,
      trigger: 'manual',
      started_by: developer.email,
      counts: { added: 1 },
    })
    expect((await developer.get(`${path}/objects`)).body).toMatchObject({
      total: 1,
      items: [{ path: 'a.txt', action: 'add' }],
    })
    const other = await createDraft(developer)
    expect((await developer.get(`/api/v1/datasets/${other}/sync/runs/${run_id}`)).status).toBe(404)
  })
})

describe('the objects of an ended sync', () => {
  test('are forgotten but for the first thousand of each action', { timeout: 300_000 }, async () => {
    const files = Array.from({ length: 1300 }, (_, i) => ({ url: 'same.txt', path: `${i}.txt` }))
    web.put('same.txt', 'same')
    web.put('list.json', JSON.stringify([...files, 'ftp://a/b']))
    const dataset = await scene.follow(await addWeb('/list.json'))
    const { run_id } = await scene.syncNow(dataset, '?dry_run=true')
    const path = `${syncPath(dataset)}/runs/${run_id}/objects`
    await eventually(async () => (await developer.get(path)).body.total === 1001, 150)
    expect((await developer.get(`${path}?action=add`)).body.total).toBe(1000)
  })
})

describe('GET /api/v1/datasets?external_source=', () => {
  test('200 lists the datasets that follow it', async () => {
    const source = await addWeb()
    const dataset = await scene.follow(source)
    const { body } = await developer.get(`/api/v1/datasets?external_source=${source}`)
    expect(body.items).toMatchObject([{ id: dataset, external_source_id: source }])
  })
})

describe('a schedule', () => {
  test('starts a sync by itself when its time has come', { timeout: 300_000 }, async () => {
    web.put('a.txt', 'a')
    const dataset = await scene.follow(await addWeb(), { schedule: '0 3 * * *' })
    await transaction(scene.platform.services.db, 'system', async (tx) => {
      await tx
        .updateTable('datasetSyncs')
        .set({ nextAt: new Date(0) })
        .where('datasetId', '=', dataset)
        .execute()
      await tx
        .updateTable('schedules')
        .set({ nextAt: new Date(0) })
        .where('name', '=', 'external-sources.startDue')
        .execute()
    })
    const { run_id, config } = await eventually(async () => {
      const { body } = await developer.get(syncPath(dataset))
      return body.state === 'DONE' && body
    }, 150)
    expect(new Date(config.next_at).getTime()).toBeGreaterThan(Date.now())
    const { body } = await developer.get(`/api/v1/datasets/${dataset}/sync/runs/${run_id}`)
    expect(body).toMatchObject({ trigger: 'schedule', started_by: 'schedule' })
  })
})

describe('a tenant that has switched external sources off', () => {
  test('403 for its syncs; its datasets stay', async () => {
    await scene.platform.tenant('plain')
    const member = await scene.platform.member('plain', 'ADMIN')
    const dataset = await createDraft(member)
    const tenants = (await scene.platform.admin.get('/api/v1/settings/tenants')).body.items
    const { id } = tenants.find(({ code }: { code: string }) => code === 'plain')
    await scene.platform.admin.patch(`/api/v1/settings/tenants/${id}`, { features: { 'external-sources': false } })
    expect((await member.post(syncPath(dataset))).status).toBe(403)
    expect((await member.get(`/api/v1/datasets/${dataset}`)).status).toBe(200)
  })
})
