import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { TestClient } from '../../../test/harness.ts'
import { type PromotionStage, startPromotionStage } from './promotions.fixture.ts'

let stage: PromotionStage
let platform: PromotionStage['platform']
let tenant: PromotionStage['tenant']
let work: PromotionStage['work']
let decide: PromotionStage['decide']
let viewer: TestClient
let requester: TestClient
let approver: TestClient
let stranger: TestClient
let name: string
beforeAll(async () => {
  stage = await startPromotionStage()
  ;({ platform, tenant, work, decide, viewer, requester, approver, stranger } = stage)
})
afterAll(() => stage?.platform.stop())
beforeEach(async () => {
  name = await stage.newModel()
})

const request = (to: string, client = requester) => stage.request(name, to, client)
const stages = async () =>
  (await viewer.get(`/api/v1/models/${name}/versions`)).body.items.map((v: { stage: string }) => v.stage).reverse()
async function promoted(to: string): Promise<string> {
  const { id } = (await request(to)).body
  expect((await decide(id, 'approve', { comment: 'fine' })).status).toBe(200)
  return id
}

describe('POST /api/v1/models/{name}/{version}/promote', () => {
  test('201 makes a request with what speaks for and against it; nothing changes yet', async () => {
    await promoted('2')
    const reply = await request('3')
    expect(reply.status).toBe(201)
    expect(reply.body).toMatchObject({ model: name, to_version: '3', status: 'PENDING', requested_by: requester.email })
    const gates: { name: string; state: string; message: string; figures: object[] }[] = reply.body.gates
    expect(gates.map((gate) => [gate.name, gate.state])).toEqual([
      ['files', 'passed'],
      ['lineage', 'passed'],
      ['image', 'unknown'],
      ['validation', 'failed'],
      ['drift', 'unknown'],
    ])
    expect(gates[3]!.figures).toEqual([{ key: 'top1', value: 0.7, reference: 0.9, worse: true }])
    expect(gates[4]!.message).toContain('no predictions')
    expect(await stages()).toEqual(['None', 'Production', 'None'])
  })

  test('409 while another request waits, and for what is in Production; 404 for what is not there', async () => {
    await promoted('2')
    expect((await request('2')).status).toBe(409)
    expect((await request('3')).status).toBe(201)
    expect((await request('1')).status).toBe(409)
    expect((await request('99')).status).toBe(404)
    expect((await request('1', stranger)).status).toBe(404)
  })

  test('201 once of many at the same time', async () => {
    const replies = await Promise.all(Array.from({ length: 5 }, () => request('2')))
    expect(replies.map((reply) => reply.status).sort()).toEqual([201, 409, 409, 409, 409])
  })
})

describe('POST /api/v1/promotions/{promotion_id}:approve', () => {
  test('200 puts the version in Production and archives the former one, at once and with its reason', async () => {
    await promoted('1')
    const id = await promoted('2')
    expect(await stages()).toEqual(['Archived', 'Production', 'None'])
    const { history } = (await viewer.get(`/api/v1/models/${name}/versions/1`)).body
    expect(history.at(-1)).toMatchObject({
      stage: 'Archived',
      promotion_id: id,
      actor: approver.email,
      reason: 'better',
    })
    expect((await decide(id, 'approve', {})).body.detail).toEqual({ status: 'APPROVED' })
  })

  test('403 for who requested it, 200 when the tenant lets people approve themselves', async () => {
    const { id } = (await request('2')).body
    expect((await decide(id, 'approve', {}, requester)).status).toBe(403)
    expect(await stages()).toEqual(['None', 'None', 'None'])
    const set = (features: object) => platform.admin.patch(`/api/v1/settings/tenants/${tenant.id}`, { features })
    await set({ self_approval: true })
    const reply = await decide(id, 'approve', {}, requester)
    await set({})
    expect(reply.status).toBe(200)
  })

  test('200 for one of two at the same time, 409 for the other', async () => {
    const { id } = (await request('2')).body
    const replies = await Promise.all([decide(id, 'approve', {}), decide(id, 'reject', { reason: 'no' })])
    expect(replies.map((reply) => reply.status).sort()).toEqual([200, 409])
  })

  test('409 when its time is over', async () => {
    const { id } = (await request('2')).body
    await work((tx) =>
      tx
        .updateTable('modelPromotions')
        .set({ expiresAt: new Date(0) })
        .where('id', '=', id)
        .execute(),
    )
    expect((await decide(id, 'approve', {})).body.detail).toEqual({ status: 'EXPIRED' })
    expect((await request('2')).status).toBe(201)
  })
})

describe('POST /api/v1/promotions/{promotion_id}:reject and :cancel', () => {
  test('200 ends the request with the reason; 409 afterwards; 404 for another tenant', async () => {
    const { id } = (await request('2')).body
    expect((await decide(id, 'reject', { reason: 'x' }, stranger)).status).toBe(404)
    expect((await decide(id, 'reject', {})).status).toBe(422)
    expect((await decide(id, 'reject', { reason: 'too slow' })).body).toMatchObject({
      status: 'REJECTED',
      decided_by: approver.email,
      decision_comment: 'too slow',
    })
    expect((await decide(id, 'cancel', {})).status).toBe(409)
  })

  test('200 cancels for who asked, 403 for a stranger to the request without the permission', async () => {
    const { id } = (await request('2')).body
    expect((await viewer.post(`/api/v1/promotions/${id}:cancel`)).status).toBe(403)
    expect((await requester.post(`/api/v1/promotions/${id}:cancel`)).body.status).toBe('CANCELED')
  })
})

describe('POST /api/v1/promotions/{promotion_id}:rollback', () => {
  test('200 puts back what was there, and the history tells all of it', async () => {
    await promoted('1')
    const between = new Date()
    await new Promise((resolve) => setTimeout(resolve, 5))
    const id = await promoted('2')
    const reply = await decide(id, 'rollback', { reason: 'it failed' })
    expect(reply.body).toMatchObject({
      status: 'ROLLED_BACK',
      rolled_back_by: approver.email,
      rollback_reason: 'it failed',
    })
    expect(await stages()).toEqual(['Production', 'Archived', 'None'])
    const then = await viewer.get(`/api/v1/models/${name}/history?at=${between.toISOString()}`)
    expect(then.body.items).toMatchObject([{ version: '1', to_stage: 'Production', actor: approver.email }])
    expect((await decide(id, 'rollback', { reason: 'again' })).status).toBe(409)
  })

  test('409 when nothing was there before, and when another promotion came since', async () => {
    const first = await promoted('1')
    expect((await decide(first, 'rollback', { reason: 'x' })).body.detail.reason).toBe('no_former')
    const second = await promoted('2')
    await promoted('3')
    expect((await decide(second, 'rollback', { reason: 'x' })).body.detail.reason).toBe('superseded')
  })
})

describe('GET /api/v1/promotions', () => {
  test('200 newest first, by status and model, of the tenant alone', async () => {
    await promoted('1')
    await request('2')
    const list = async (query: string, client = viewer) => (await client.get(`/api/v1/promotions?${query}`)).body
    expect((await list(`model=${name.toLowerCase()}`)).items.map((p: { status: string }) => p.status)).toEqual([
      'PENDING',
      'APPROVED',
    ])
    expect((await list(`model=${name}&status=APPROVED`)).total).toBe(1)
    expect((await list('', stranger)).total).toBe(0)
    expect((await viewer.get('/api/v1/promotions?status=LOST')).status).toBe(422)
  })
})

describe('GET /api/v1/promotions/{promotion_id}', () => {
  test('200 shows it; 404 for another tenant', async () => {
    const { id } = (await request('2')).body
    expect((await viewer.get(`/api/v1/promotions/${id}`)).body).toMatchObject({ id, rollback_conditions: 'top1 < 0.7' })
    expect((await stranger.get(`/api/v1/promotions/${id}`)).status).toBe(404)
  })
})

describe('GET /api/v1/models/{name}/history', () => {
  test('200 tells every change newest first, also of what is deleted since; 422 and 404', async () => {
    await promoted('2')
    await requester.delete(`/api/v1/models/${name}/3`)
    const { body } = await viewer.get(`/api/v1/models/${name}/history`)
    expect(body.items[0]).toMatchObject({ version: '3', from_stage: 'None', to_stage: 'Deleted' })
    expect(body.items[1]).toMatchObject({ version: '2', to_stage: 'Production', reason: 'better' })
    expect(body.total).toBe(5)
    expect((await viewer.get(`/api/v1/models/${name}/history?stage=Production`)).body.total).toBe(1)
    expect((await viewer.get(`/api/v1/models/${name}/history?at=now`)).status).toBe(422)
    expect((await stranger.get(`/api/v1/models/${name}/history`)).status).toBe(404)
    await requester.post(`/api/v1/models/${name}/2/stage`, { stage: 'Archived' })
    expect((await requester.delete(`/api/v1/models/${name}`)).status).toBe(204)
    expect((await viewer.get(`/api/v1/models/${name}`)).status).toBe(404)
    const after = (await viewer.get(`/api/v1/models/${name.toUpperCase()}/history`)).body
    expect(after.total).toBe(8)
    expect(after.items[0]).toMatchObject({ to_stage: 'Deleted', actor: requester.email })
    expect((await stranger.get(`/api/v1/models/${name}/history`)).status).toBe(404)
  })
})

test('the history cannot be rewritten', async () => {
  const change = work((tx) => tx.updateTable('modelStageHistory').set({ actor: 'somebody else' }).execute())
  await expect(change).rejects.toMatchObject({ code: '42501' })
  await expect(work((tx) => tx.deleteFrom('modelStageHistory').execute())).rejects.toMatchObject({ code: '42501' })
})
