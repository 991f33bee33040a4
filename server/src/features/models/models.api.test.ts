import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestPlatform } from '../../../test/harness.ts'
import { type Tx, transaction } from '../../platform/db/transaction.ts'
import * as models from './models.api.ts'

let platform: TestPlatform
let ctx: models.ModelsCtx
beforeAll(async () => {
  platform = await startTestPlatform()
  const tenant = await platform.tenant('registry')
  const actor = { userId: platform.admin.userId, email: 'a@b.c', fullName: null, isSuperuser: true, sessionId: null }
  ctx = { tenant, actor, clock: platform.services.clock }
})
afterAll(() => platform?.stop())
const work = <T>(change: (tx: Tx) => Promise<T>) =>
  transaction(platform.services.db, { tenantId: ctx.tenant.id }, change)

const version = (name: string): models.NewModelVersion => ({
  name,
  runId: '0'.repeat(32),
  experimentId: '7',
  dataset: { id: 'd', name: 'flowers', digest: 'sha256:1' },
  files: [{ path: 'model.onnx', digest: 'sha256:2', size: 5 }],
  task: 'image_classification',
  framework: 'torchvision',
  architecture: 'resnet18',
  classes: ['daisy', 'rose'],
  signature: { inputs: [] },
  metrics: { top1: 0.9 },
  environment: { torch: '2' },
})

describe('registerModelVersion', () => {
  test('what was registered comes back, by the name in any case', async () => {
    const made = await work((tx) => models.registerModelVersion(tx, ctx, version('Flowers')))
    expect(made).toMatchObject({ name: 'Flowers', version: '1' })
    const found = await work((tx) => models.getModelVersion(tx, ctx, 'fLOWERS', '1'))
    expect(found).toMatchObject({ ...version('Flowers'), modelId: made.modelId, stage: 'None', createdBy: 'a@b.c' })
  })

  test('many at once of one new name give each its own number', async () => {
    const made = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        work((tx) => models.registerModelVersion(tx, ctx, version(i % 2 ? 'crowd' : 'CROWD'))),
      ),
    )
    expect(made.map((m) => Number(m.version)).sort()).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
    expect(new Set(made.map((m) => m.modelId)).size).toBe(1)
  })

  test.each(['a/b', 'a:b', ' ', 'summary', 'x'.repeat(257)])('422 for the name %j', async (name) => {
    await expect(work((tx) => models.registerModelVersion(tx, ctx, version(name)))).rejects.toMatchObject({
      code: 'unprocessable_entity',
    })
  })
})

describe('getModelVersion', () => {
  test.each([
    ['Flowers', '99'],
    ['Flowers', '01'],
    ['Flowers', '99999999999'],
    ['none', '1'],
  ])('not_found for %s version %s', async (name, number) => {
    await expect(work((tx) => models.getModelVersion(tx, ctx, name, number))).rejects.toMatchObject({
      code: 'not_found',
    })
  })
})
