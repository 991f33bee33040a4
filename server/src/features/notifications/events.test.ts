import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { registerModel } from '../../../test/model-version.ts'
import { type Tx, transaction } from '../../platform/db/transaction.ts'

// What people are told when something happens in the product, by whatever feature, through the one mechanism.

let platform: TestPlatform
beforeAll(async () => {
  platform = await startTestPlatform()
  await platform.tenant('acme')
})
afterAll(() => platform?.stop())

const system = <T>(work: (tx: Tx) => Promise<T>) => transaction(platform.services.db, 'system', work)
const told = async (client: TestClient, group: string): Promise<{ title: string; body: string | null }[]> =>
  (await client.get('/api/v1/notifications')).body.items.filter((item: { group: string }) => item.group === group)
const titles = async (client: TestClient, group: string) => (await told(client, group)).map(({ title }) => title)
const due = (name: string) =>
  system((tx) =>
    tx
      .updateTable('schedules')
      .set({ nextAt: new Date(0) })
      .where('name', '=', name)
      .execute(),
  )

let models = 0
async function newModel(): Promise<string> {
  const name = `Model-${++models}`
  await registerModel(platform, { name, tenantCode: 'acme' })
  return name
}

describe('promotions', () => {
  let requester: TestClient
  let approver: TestClient
  beforeAll(async () => {
    requester = await platform.member('acme', 'MAINTAINER')
    approver = await platform.member('acme', 'MAINTAINER')
  })

  async function requested(): Promise<{ id: string; name: string }> {
    const name = await newModel()
    const body = { to_version: '1', reason: 'It is better.' }
    const reply = await requester.post(`/api/v1/models/${name}/1/promote`, body)
    expect(reply.status).toBe(201)
    return { id: reply.body.id, name }
  }
  const decide = async (id: string, verb: string, body: object = {}, client = approver) =>
    expect((await client.post(`/api/v1/promotions/${id}:${verb}`, body)).status).toBe(200)
  const last = async (client: TestClient) => (await told(client, 'promotions'))[0]

  test('a request is told to everybody who could decide it, with the reason, and not to who made it', async () => {
    const viewer = await platform.member('acme', 'VIEWER')
    const { name } = await requested()
    const title = `${requester.email} asks to promote ${name} version 1 to Production`
    expect(await last(approver)).toMatchObject({ title, body: 'It is better.' })
    expect(await titles(viewer, 'promotions')).toEqual([])
    expect(await titles(requester, 'promotions')).not.toContain(title)
  })

  test('approval, rejection, cancellation and rollback are told to who asked, with what was said', async () => {
    const approved = await requested()
    await decide(approved.id, 'approve', { comment: 'Go.' })
    expect(await last(requester)).toMatchObject({ title: `${approved.name} version 1 is in Production`, body: 'Go.' })
    const rejected = await requested()
    await decide(rejected.id, 'reject', { reason: 'Too slow.' })
    expect(await last(requester)).toMatchObject({ title: expect.stringContaining('rejected'), body: 'Too slow.' })
    const canceled = await requested()
    await decide(canceled.id, 'cancel')
    expect(await last(requester)).toMatchObject({
      title: `${canceled.name} version 1 is not promoted: the request was canceled`,
    })
  })

  test('the own decision is no news', async () => {
    const { id, name } = await requested()
    await decide(id, 'cancel', {}, requester)
    expect((await titles(requester, 'promotions')).filter((title) => title.includes(name))).toEqual([])
  })

  test('a request that nobody decided is told to who asked, although nobody looks', async () => {
    const { id, name } = await requested()
    await system((tx) =>
      tx
        .updateTable('modelPromotions')
        .set({ expiresAt: new Date(0) })
        .where('id', '=', id)
        .execute(),
    )
    await due('models.expirePromotions')
    const title = `${name} version 1 is not promoted: nobody decided the request in time`
    await eventually(async () => (await titles(requester, 'promotions')).includes(title), 60)
    expect((await approver.get(`/api/v1/promotions/${id}`)).body.status).toBe('EXPIRED')
  })
})

describe('tokens', () => {
  test.each([
    ['registry', '/api/v1/registry/tokens', 'registry.sweep'],
    ['tracker', '/api/v1/tracker/tokens', 'tracker.announceExpiry'],
  ])('a %s token that expires within a week is announced to its owner, once', async (kind, path, schedule) => {
    const member = await platform.member('acme', 'DEVELOPER')
    await member.post(path, { name: 'soon', expires_in_days: 3 })
    await member.post(path, { name: 'later', expires_in_days: 30 })
    const group = `${kind}_tokens`
    for (let times = 0; times < 2; times++) {
      const { lastRunId: before } = await scheduleOf(schedule)
      await due(schedule)
      await eventually(async () => {
        const { lastRunId, state } = await scheduleOf(schedule)
        return lastRunId !== before && state === 'succeeded'
      }, 60)
    }
    expect(await titles(member, group)).toEqual([
      expect.stringMatching(new RegExp(`^Your ${kind} token soon expires on 2`)),
    ])
  })

  const scheduleOf = (name: string) =>
    system((tx) =>
      tx
        .selectFrom('schedules as s')
        .leftJoin('runs as r', 'r.id', 's.lastRunId')
        .select(['s.lastRunId', 'r.state'])
        .where('s.name', '=', name)
        .executeTakeFirstOrThrow(),
    )
})

describe('datasets', () => {
  test('who uploads learns that the dataset is valid, and that it is not any more', async () => {
    const member = await platform.member('acme', 'DEVELOPER')
    const { id } = (await member.post('/api/v1/datasets/drafts', { name: 'Flowers' })).body
    const upload = async (name: string, content: string) => {
      const body = new FormData()
      body.set('file', new Blob([content]), name)
      expect((await member.call('POST', `/api/v1/datasets/${id}/files`, { body })).status).toBe(201)
    }
    await upload('table.csv', 'a,b\n1,2\n')
    await eventually(async () => (await titles(member, 'dataset')).includes('Dataset Flowers is valid'), 60)
    await upload('broken.png', 'this is no image')
    await eventually(async () => (await titles(member, 'dataset')).includes('Dataset Flowers is not valid'), 60)
    const different = new Set(await titles(member, 'dataset'))
    expect([...different]).toEqual(['Dataset Flowers is not valid', 'Dataset Flowers is valid'])
  })
})

describe('imports', () => {
  test('who started an import learns that it failed, and why', async () => {
    const member = await platform.member('acme', 'DEVELOPER')
    const archive = 'this is no archive'
    const session = { repository: 'team/app', tag: '1', size_bytes: archive.length, filename: 'app.tar' }
    const { id } = (await member.post('/api/v1/registry/imports', session)).body
    const headers = {
      'content-type': 'application/octet-stream',
      'content-range': `bytes 0-${archive.length - 1}/${archive.length}`,
    }
    await member.call('PATCH', `/api/v1/registry/imports/${id}/chunks`, { body: archive, headers })
    expect((await member.post(`/api/v1/registry/imports/${id}:start`)).status).toBe(200)
    const [notice] = await eventually(async () => {
      const notices = await told(member, 'registry_imports')
      return notices.length > 0 && notices
    }, 60)
    const { error } = (await member.get(`/api/v1/registry/imports/${id}`)).body
    expect(notice).toMatchObject({ title: 'The import of app.tar failed', body: error.message })
  })
})

describe('people who have left', () => {
  test('are told nothing of the tenant any more, although they asked', async () => {
    const requester = await platform.member('acme', 'MAINTAINER')
    const approver = await platform.member('acme', 'MAINTAINER')
    const name = await newModel()
    const { id } = (await requester.post(`/api/v1/models/${name}/1/promote`, { to_version: '1', reason: 'x' })).body
    await platform.admin.delete(`/api/v1/settings/users/${requester.userId}/role`, { tenant: 'acme' })
    await approver.post(`/api/v1/promotions/${id}:reject`, { reason: 'secret of acme' })
    const rows = await system((tx) =>
      tx.selectFrom('notifications').select('title').where('userId', '=', requester.userId).execute(),
    )
    expect(rows).toEqual([])
  })
})

describe('every group of the preferences', () => {
  test('can be switched off, and then nothing of it is told', async () => {
    const requester = await platform.member('acme', 'MAINTAINER')
    const approver = await platform.member('acme', 'MAINTAINER')
    const groups = (await approver.get('/api/v1/notifications/preferences')).body.items
    const off = Object.fromEntries(
      groups.map(({ group }: { group: string }) => [group, { in_app: false, email: false }]),
    )
    await approver.put('/api/v1/notifications/preferences', { prefs: off })
    const name = await newModel()
    await requester.post(`/api/v1/models/${name}/1/promote`, { to_version: '1', reason: 'x' })
    expect(await titles(approver, 'promotions')).toEqual([])
    const named = groups.map(({ group }: { group: string }) => group)
    expect(named).toEqual(
      expect.arrayContaining(['admin', 'dataset', 'training', 'promotions', 'serving', 'registry_tokens']),
    )
  })
})
