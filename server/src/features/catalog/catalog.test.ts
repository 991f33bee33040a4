import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { insertFrozenDataset } from '../../../test/frozen-dataset.ts'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { resolveTraining } from './catalog.api.ts'
import { presets } from './presets.ts'

let platform: TestPlatform
let viewer: TestClient
let stranger: TestClient
beforeAll(async () => {
  platform = await startTestPlatform()
  const tenant = await platform.tenant('acme')
  await platform.tenant('other')
  viewer = await platform.member('acme', 'VIEWER')
  stranger = await platform.member('other', 'ADMIN')
  await insertFrozenDataset(platform.services, tenant.id, 'colours', { perClass: 4 })
  await insertFrozenDataset(platform.services, tenant.id, 'draft', { perClass: 4, state: 'READY' })
  await insertFrozenDataset(platform.services, tenant.id, 'boxes', { perClass: 4, tasks: ['object_detection'] })
})
afterAll(() => platform?.stop())

describe('GET /api/v1/training/catalog/tasks', () => {
  test('200 lists the six tasks in display order, and which of them can be trained', async () => {
    const { body } = await viewer.get('/api/v1/training/catalog/tasks')
    expect(body.items.map(({ key }: { key: string }) => key)).toEqual([
      'image_classification',
      'object_detection',
      'instance_segmentation',
      'semantic_segmentation',
      'keypoint_detection',
      'oriented_object_detection',
    ])
    expect(body.items[0].frameworks).toEqual(['torchvision'])
  })
})

describe('GET /api/v1/training/catalog/frameworks', () => {
  test('200 shows a card per framework, of one task when asked', async () => {
    const { body } = await viewer.get('/api/v1/training/catalog/frameworks?task=image_classification')
    expect(body.items).toMatchObject([{ key: 'torchvision', license: 'BSD-3-Clause', tasks: ['image_classification'] }])
    const none = await viewer.get('/api/v1/training/catalog/frameworks?task=oriented_object_detection')
    expect(none.body).toEqual({ items: [], total: 0 })
    expect((await viewer.get('/api/v1/training/catalog/frameworks?task=cooking')).status).toBe(422)
  })
})

describe('GET /api/v1/training/catalog/models', () => {
  const path = '/api/v1/training/catalog/models'

  test('200 finds by name and gives the size in millions of parameters', async () => {
    const { body } = await viewer.get(`${path}?q=ResNet-18`)
    expect(body).toMatchObject({
      total: 1,
      page: 1,
      items: [{ key: 'resnet18', parameters_millions: 11.69, map: null }],
    })
  })

  test('200 pages, and lists nothing for an unknown framework', async () => {
    const { body: all } = await viewer.get(`${path}?page_size=200`)
    const { body: second } = await viewer.get(`${path}?page_size=2&page=2`)
    expect(second).toMatchObject({ items: all.items.slice(2, 4), total: all.total })
    expect((await viewer.get(`${path}?framework=unknown`)).body.items).toEqual([])
  })
})

describe('GET /api/v1/training/catalog/hyperparameters', () => {
  const path = '/api/v1/training/catalog/hyperparameters'

  test('200 gives the YAML that a new experiment takes', async () => {
    const { body } = await viewer.get(`${path}?framework=torchvision&model=small_cnn`)
    expect(body.yaml).toMatch(/^epochs: \d+ +# /m)
    const { hyperparameters } = resolveTraining(
      { task: 'image_classification', framework: 'torchvision', model: 'small_cnn' },
      body.yaml,
    )
    expect(hyperparameters.epochs).toBeGreaterThan(0)
  })

  test('404 for an unknown model, 422 for none and for an unknown framework', async () => {
    expect((await viewer.get(`${path}?framework=torchvision&model=unknown`)).status).toBe(404)
    const missing = await viewer.get(`${path}?framework=torchvision`)
    expect(missing.body.detail).toMatchObject([{ loc: ['query', 'model'], type: 'missing' }])
    const unknown = await viewer.get(`${path}?framework=unknown&model=small_cnn`)
    expect(unknown.body.detail).toMatchObject([{ loc: ['query', 'framework'] }])
  })
})

describe('GET /api/v1/training/presets', () => {
  test('200 lists presets that an experiment can be made of', async () => {
    const { body } = await viewer.get('/api/v1/training/presets')
    expect(body.total).toBe(presets.length)
    for (const preset of body.items) expect(() => resolveTraining(preset, preset.hyperparameters)).not.toThrow()
  })
})

describe('GET /api/v1/training/datasets', () => {
  test('200 lists frozen datasets of the tenant alone', async () => {
    const { body } = await viewer.get('/api/v1/training/datasets')
    expect(body.items.map(({ id }: { id: string }) => id).toSorted()).toEqual(['boxes', 'colours'])
    const colours = body.items.find(({ id }: { id: string }) => id === 'colours')
    expect(colours).toMatchObject({ class_count: 3, file_count: 15, splits: { train: 12, test: 3 } })
    expect((await stranger.get('/api/v1/training/datasets')).body.items).toEqual([])
  })
})

describe('GET /api/v1/training/datasets/{dataset_id}/classes', () => {
  const path = '/api/v1/training/datasets/colours/classes'

  test('200 lists classes in the order of the outputs, and says that the task fits', async () => {
    const { body } = await viewer.get(`${path}?task=image_classification&framework=torchvision&model=resnet18`)
    expect(body).toMatchObject({ total: 3, compatible: true, reason: null })
    expect(body.items).toEqual(['blue', 'green', 'red'].map((name, index) => ({ index, name })))
  })

  test('200 says why a task does not fit', async () => {
    const { body } = await viewer.get('/api/v1/training/datasets/boxes/classes?task=image_classification')
    expect(body).toMatchObject({ compatible: false, reason: 'The dataset has the shape of object_detection.' })
  })

  test('422 for a model or framework that is not in the catalogue', async () => {
    expect((await viewer.get(`${path}?model=unknown`)).status).toBe(422)
    expect((await viewer.get(`${path}?framework=unknown`)).status).toBe(422)
  })

  test('404 for one that is not frozen, unknown, or of another tenant', async () => {
    for (const id of ['draft', 'unknown'])
      expect((await viewer.get(`/api/v1/training/datasets/${id}/classes`)).status).toBe(404)
    expect((await stranger.get(path)).status).toBe(404)
  })
})
