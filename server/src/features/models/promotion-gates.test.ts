import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { newId } from '../../platform/ids.ts'
import { type PromotionStage, startPromotionStage } from './promotions.fixture.ts'

interface Gate {
  name: string
  state: string
  message: string
  figures: object[]
}

let stage: PromotionStage
let name: string
let modelId: string
beforeAll(async () => {
  stage = await startPromotionStage()
})
afterAll(() => stage?.platform.stop())
beforeEach(async () => {
  name = await stage.newModel()
  const [model] = await stage.work((tx) => tx.selectFrom('models').select('id').where('name', '=', name).execute())
  modelId = model!.id
})

async function requested(to: string): Promise<string> {
  const { status, body } = await stage.request(name, to)
  expect(status).toBe(201)
  return body.id
}

const shown = async (id: string) => (await stage.viewer.get(`/api/v1/promotions/${id}`)).body
const gatesOf = async (id: string): Promise<Gate[]> => (await shown(id)).gates
const gateOf = async (id: string, gate: string) => (await gatesOf(id)).find((one) => one.name === gate)

/** An image of the third version, which is from now on the newest. */
async function newestImage(state: 'BUILDING' | 'FAILED' | 'READY'): Promise<void> {
  const image = { tenantId: stage.tenant.id, modelId, modelName: name, modelVersion: 3, createdBy: 'x' }
  const error = state === 'FAILED' ? JSON.stringify({ message: 'the layer broke', step: null }) : null
  const build = { id: newId(), runId: newId(), builderTag: newId(), state, error }
  await stage.work((tx) =>
    tx
      .insertInto('modelImages')
      .values({ ...image, ...build })
      .execute(),
  )
}

/** Other figures, another image, another reference: nothing is as it was. */
async function changeEverything(): Promise<void> {
  const metrics = JSON.stringify({ top1: 0.1, recall: 0.2 })
  await stage.work((tx) => tx.updateTable('modelVersions').set({ metrics }).where('modelId', '=', modelId).execute())
  await newestImage('FAILED')
}

describe('GET /api/v1/promotions/{promotion_id}', () => {
  test('200 shows of a request that waits where the newest image of its version stands now', async () => {
    const id = await requested('3')
    for (const [state, expected, message] of [
      ['BUILDING', 'unknown', 'BUILDING'],
      ['FAILED', 'failed', 'the layer broke'],
      ['READY', 'passed', 'READY'],
    ] as const) {
      await newestImage(state)
      expect(await gateOf(id, 'image')).toMatchObject({ state: expected, message: expect.stringContaining(message) })
    }
  })

  test('200 shows of a request that waits the figures of now', async () => {
    const id = await requested('3')
    expect((await gateOf(id, 'validation'))!.figures).toMatchObject([{ key: 'top1', value: 0.7 }])
    await changeEverything()
    expect((await gateOf(id, 'validation'))!.figures).toContainEqual(
      expect.objectContaining({ key: 'top1', value: 0.1 }),
    )
  })

  test.each([
    ['approve', { comment: 'fine' }],
    ['reject', { reason: 'too slow' }],
    ['cancel', {}],
  ])('200 shows after :%s what the one who decided saw, whatever changed since', async (verb, body) => {
    const first = await requested('2')
    expect((await stage.decide(first, 'approve')).status).toBe(200)
    await newestImage('READY')
    const id = await requested('3')
    const seen = await gatesOf(id)
    expect(seen.map(({ name: gate, state }) => [gate, state])).toEqual([
      ['files', 'passed'],
      ['lineage', 'passed'],
      ['image', 'passed'],
      ['validation', 'failed'],
      ['drift', 'unknown'],
    ])
    expect(seen[3]!.figures).toEqual([{ key: 'top1', value: 0.7, reference: 0.9, worse: true }])
    expect((await stage.decide(id, verb, body)).body.gates).toEqual(seen)
    await changeEverything()
    expect(await gatesOf(id)).toEqual(seen)
    const list = (await stage.viewer.get(`/api/v1/promotions?model=${name}`)).body.items
    expect(list.find((promotion: { id: string }) => promotion.id === id).gates).toEqual(seen)
  })

  test('200 shows after :rollback what the one who approved saw', async () => {
    expect((await stage.decide(await requested('2'), 'approve')).status).toBe(200)
    const id = await requested('3')
    const seen = await gatesOf(id)
    await stage.decide(id, 'approve')
    await changeEverything()
    expect((await stage.decide(id, 'rollback', { reason: 'it failed' })).body).toMatchObject({ status: 'ROLLED_BACK' })
    expect(await gatesOf(id)).toEqual(seen)
  })

  test('200 shows after its time is over what there was to see then', async () => {
    const id = await requested('3')
    const seen = await gatesOf(id)
    await stage.work((tx) =>
      tx
        .updateTable('modelPromotions')
        .set({ expiresAt: new Date(0) })
        .where('id', '=', id)
        .execute(),
    )
    expect(await shown(id)).toMatchObject({ status: 'EXPIRED', gates: seen })
    await changeEverything()
    expect(await gatesOf(id)).toEqual(seen)
  })

  test('200 shows none of a decision from before they were kept, rather than those of today', async () => {
    const id = await requested('3')
    await stage.decide(id, 'reject', { reason: 'no' })
    await stage.work((tx) => tx.updateTable('modelPromotions').set({ gates: null }).where('id', '=', id).execute())
    expect(await gatesOf(id)).toEqual([])
  })
})
