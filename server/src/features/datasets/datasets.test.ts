import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { permissionsOf } from '../../platform/http/permissions.ts'
import { transaction } from '../../platform/transaction.ts'
import {
  findTrainableDataset,
  forgetDatasetUsage,
  listTrainableDatasets,
  noteDatasetUsage,
  readSamples,
} from './datasets.api.ts'
import { createDraft, makeFlowers, makeImage, uploadDataset } from './datasets.fixture.ts'
import { draftId } from './datasets.service.ts'

let platform: TestPlatform
let developer: TestClient
let stranger: TestClient
let ctx: TenantCtx
beforeAll(async () => {
  platform = await startTestPlatform()
  developer = await platform.member('default', 'DEVELOPER')
  await platform.tenant('other')
  stranger = await platform.member('other', 'ADMIN')
  const tenant = await transaction(
    { ...platform.services, kind: 'system', scope: 'system', actor: null, requestId: '', audit: null },
    (tx) => tx.selectFrom('tenants').select(['id', 'code']).where('code', '=', 'default').executeTakeFirstOrThrow(),
  )
  const actor = {
    userId: developer.userId,
    email: developer.email,
    fullName: null,
    isSuperuser: false,
    sessionId: null,
  }
  const scope = { tenantId: tenant.id }
  const permissions = permissionsOf('DEVELOPER')
  ctx = { ...platform.services, kind: 'tenant', scope, tenant, actor, permissions, requestId: 'test', audit: null }
})
afterAll(() => platform?.stop())

const use = (datasetId: string, state: 'running' | 'ended') =>
  transaction(ctx, (tx) =>
    noteDatasetUsage(tx, ctx, { datasetId, experimentId: `e-${datasetId}`, experimentName: 'try', state }),
  )

describe('POST /api/v1/datasets', () => {
  test('201 registers data that lies elsewhere, as declared', async () => {
    const reply = await developer.post('/api/v1/datasets', {
      id: 'sensor.log-1',
      name: 'Sensors',
      source: 'plant',
      schema_version: '2',
      record_count: 12,
      size_bytes: 3000,
      format: 'parquet',
      key_fields: [{ name: 'ts' }],
      storage_uri: 's3://bucket/sensors',
      validation_status: 'PASSED',
      variables: [{ name: 'temperature', dtype: 'number', unit: '°C', min: -5, max: 80, missing_rate: 0.25 }],
    })
    expect(reply.status).toBe(201)
    expect(reply.body).toMatchObject({
      id: 'sensor.log-1',
      status: 'DRAFT',
      validation_status: 'PASSED',
      record_count: 12,
      size_bytes: 3000,
      file_count: 0,
      created_by: developer.email,
    })
    expect((await developer.get('/api/v1/datasets/sensor.log-1')).body).toEqual(reply.body)
  })

  test('409 when the id is taken, though not by another tenant', async () => {
    const body = { id: 'taken', name: 'One' }
    expect((await developer.post('/api/v1/datasets', body)).status).toBe(201)
    const again = await developer.post('/api/v1/datasets', body)
    expect(again.status).toBe(409)
    expect(again.body.detail).toMatchObject({ reason: 'id_taken' })
    expect((await stranger.post('/api/v1/datasets', body)).status).toBe(201)
  })

  test.each([
    ['id', { id: 'Not Good', name: 'x' }],
    ['id', { id: '-x', name: 'x' }],
    ['name', { id: 'ok', name: '  ' }],
    ['name', { id: 'ok' }],
  ])('422 names %s', async (field, body) => {
    const reply = await developer.post('/api/v1/datasets', body)
    expect(reply.status).toBe(422)
    expect(reply.body.detail[0].loc).toEqual(['body', field])
  })
})

describe('POST /api/v1/datasets/drafts', () => {
  test('201 makes an id from the name, in any script', async () => {
    const reply = await developer.post('/api/v1/datasets/drafts', { name: 'Übung 1: Blüten', modality: 'image' })
    expect(reply.status).toBe(201)
    expect(reply.body.id).toMatch(/^u-bung-1-blu-ten-[0-9a-z]{6}$|^ubung-1-bluten-[0-9a-z]{6}$/)
    expect(reply.body).toMatchObject({ name: 'Übung 1: Blüten', modality: 'image', status: 'DRAFT', version: 1 })
    expect(draftId('꽃')).toMatch(/^dataset-[0-9a-z]{6}$/)
    expect(draftId('x'.repeat(200)).length).toBeLessThanOrEqual(63)
  })
})

describe('PATCH /api/v1/datasets/{dataset_id}', () => {
  test('200 changes what is given and clears what is null', async () => {
    const { id } = (await developer.post('/api/v1/datasets/drafts', { name: 'old', source: 's', modality: 'm' })).body
    const reply = await developer.patch(`/api/v1/datasets/${id}`, { name: 'new', source: null })
    expect(reply.status).toBe(200)
    expect(reply.body).toMatchObject({ name: 'new', source: null, modality: 'm' })
    expect((await developer.patch(`/api/v1/datasets/${id}`, { name: null })).body.name).toBe('new')
  })

  test('412 when it was changed since it was read; 304 when it was not', async () => {
    const id = await createDraft(developer)
    const etag = (await developer.get(`/api/v1/datasets/${id}`)).headers.get('etag')!
    const unchanged = await developer.get(`/api/v1/datasets/${id}`, { headers: { 'if-none-match': etag } })
    expect(unchanged.status).toBe(304)
    const patch = () => developer.patch(`/api/v1/datasets/${id}`, { name: 'x' }, { headers: { 'if-match': etag } })
    expect((await patch()).status).toBe(200)
    expect((await patch()).status).toBe(412)
    expect((await developer.delete(`/api/v1/datasets/${id}`, { headers: { 'if-match': etag } })).status).toBe(412)
  })
})

describe('POST /api/v1/datasets/{dataset_id}:freeze', () => {
  test('200 gives the digest over paths, contents, labels and splits, the same for the same dataset', async () => {
    const files = await makeFlowers()
    const [one, two] = [await uploadDataset(developer, files), await uploadDataset(developer, files)]
    const frozen = await developer.post(`/api/v1/datasets/${one}:freeze`)
    expect(frozen.status).toBe(200)
    expect(frozen.body).toMatchObject({ status: 'FROZEN', digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) })
    expect((await developer.post(`/api/v1/datasets/${two}:freeze`)).body.digest).toBe(frozen.body.digest)
    const again = await developer.post(`/api/v1/datasets/${one}:freeze`)
    expect(again.status).toBe(409)
    expect(again.body.detail).toEqual({ reason: 'already_frozen' })
    expect((await developer.post(`/api/v1/datasets/${one}/revalidate`)).body.detail.reason).toBe('dataset_frozen')
  })

  test('409 for an empty one and one with errors', async () => {
    const empty = await createDraft(developer)
    expect((await developer.post(`/api/v1/datasets/${empty}:freeze`)).body.detail).toEqual({ reason: 'empty' })
    const broken = await uploadDataset(developer, { 'a/1.jpg': await makeImage(), 'b/1.jpg': 'no image' })
    expect((await developer.get(`/api/v1/datasets/${broken}`)).body.status).toBe('INVALID')
    expect((await developer.post(`/api/v1/datasets/${broken}:freeze`)).body.detail).toEqual({ reason: 'invalid' })
  })
})

describe('DELETE /api/v1/datasets/{dataset_id}', () => {
  test('204 for an unused one', async () => {
    const id = await uploadDataset(developer, await makeFlowers())
    expect((await developer.delete(`/api/v1/datasets/${id}`)).status).toBe(204)
    expect((await developer.get(`/api/v1/datasets/${id}`)).status).toBe(404)
  })

  test('409 while a training runs on it, always; after one or when frozen, unless forced', async () => {
    const id = await uploadDataset(developer, await makeFlowers())
    await use(id, 'running')
    expect((await developer.delete(`/api/v1/datasets/${id}?force=true`)).body.detail.reason).toBe('in_use')
    await use(id, 'ended')
    expect((await developer.delete(`/api/v1/datasets/${id}`)).body.detail.reason).toBe('used')
    await transaction(ctx, (tx) => forgetDatasetUsage(tx, ctx, `e-${id}`))
    await developer.post(`/api/v1/datasets/${id}:freeze`)
    expect((await developer.delete(`/api/v1/datasets/${id}`)).body.detail.reason).toBe('dataset_frozen')
    await use(id, 'ended')
    expect((await developer.delete(`/api/v1/datasets/${id}?force=true`)).status).toBe(204)
  })
})

test('a training that begins while its dataset is deleted is told so', async () => {
  await expect(use('never-was', 'running')).rejects.toMatchObject({ code: 'conflict' })
})

describe('GET /api/v1/datasets/{dataset_id}/usage', () => {
  test('200 lists the trainings', async () => {
    const id = await createDraft(developer)
    await use(id, 'running')
    const running = await developer.get(`/api/v1/datasets/${id}/usage`)
    expect(running.body).toMatchObject({
      total: 1,
      items: [{ experiment_id: `e-${id}`, state: 'running', ended_at: null }],
    })
    await use(id, 'ended')
    expect((await developer.get(`/api/v1/datasets/${id}/usage`)).body.items[0].ended_at).not.toBeNull()
    expect((await stranger.get(`/api/v1/datasets/${id}/usage`)).status).toBe(404)
  })
})

describe('GET /api/v1/datasets/{dataset_id}/sample', () => {
  test('200 shows the first images; 422 for a limit outside', async () => {
    const id = await uploadDataset(developer, await makeFlowers())
    const { body } = await developer.get(`/api/v1/datasets/${id}/sample?limit=2`)
    expect(body).toMatchObject({
      total: 2,
      items: [{ path: 'flowers/test/daisy/0.jpg', label: 'daisy', split: 'test' }, {}],
    })
    expect((await developer.get(`/api/v1/datasets/${id}/sample?limit=201`)).status).toBe(422)
  })
})

describe('POST /api/v1/datasets/{dataset_id}/revalidate', () => {
  test('200 reads every file again and answers the report', async () => {
    const id = await uploadDataset(developer, await makeFlowers())
    const before = (await developer.get(`/api/v1/datasets/${id}`)).body.validation.checked_at
    const reply = await developer.post(`/api/v1/datasets/${id}/revalidate`)
    expect(reply.status).toBe(200)
    expect(reply.body).toMatchObject({ status: 'READY', validation: { total: 12, ok: 12, errors: 0 } })
    expect(reply.body.validation.checked_at > before).toBe(true)
    expect((await developer.post(`/api/v1/datasets/${id}/revalidate-annotations`)).status).toBe(200)
  })
})

describe('what trainings may know', () => {
  test('frozen datasets with their samples in path order, none of another tenant', async () => {
    const id = await uploadDataset(developer, await makeFlowers())
    expect(await findTrainableDataset(ctx, id)).toBeNull()
    const { digest } = (await developer.post(`/api/v1/datasets/${id}:freeze`)).body
    expect(await findTrainableDataset(ctx, id)).toMatchObject({
      id,
      digest,
      classes: ['daisy', 'iris'],
      tasks: ['image_classification'],
      fileCount: 12,
      splits: { train: 6, test: 6 },
    })
    expect((await listTrainableDatasets(ctx)).map((dataset) => dataset.id)).toContain(id)
    const samples = await Array.fromAsync(readSamples(ctx, id))
    expect(samples.map(({ path }) => path)).toEqual(samples.map(({ path }) => path).sort())
    expect(samples[0]).toMatchObject({ path: 'flowers/test/daisy/0.jpg', label: 'daisy', split: 'test' })
    const foreign = { ...ctx, tenant: { id: '01890000-0000-7000-8000-000000000000', code: 'x' } }
    expect(await Array.fromAsync(readSamples({ ...foreign, scope: { tenantId: foreign.tenant.id } }, id))).toEqual([])
  })
})

describe('validation', () => {
  test('finds damage, wrong names, copies and leakage, and counts classes per split', async () => {
    const same = await makeImage()
    const whole = await makeImage()
    const id = await uploadDataset(developer, {
      'train/cat/1.jpg': same,
      'test/cat/1.jpg': same,
      'train/dog/1.png': await makeImage(),
      'train/dog/cut.jpg': whole.subarray(0, whole.length - 100),
      'train/dog/2.jpg': whole,
      'readme.txt': 'hello',
    })
    const { body } = await eventually(async () => {
      const reply = await developer.get(`/api/v1/datasets/${id}`)
      return reply.body.status === 'INVALID' && reply
    })
    const counts = Object.fromEntries(
      body.validation.counts.map(({ code, count }: { code: string; count: number }) => [code, count]),
    )
    expect(counts).toEqual({
      unreadable_image: 1,
      wrong_extension: 1,
      duplicate_image: 1,
      leakage_between_splits: 1,
      class_missing_in_split: 1,
    })
    expect(body.validation.issues[0]).toMatchObject({
      code: 'unreadable_image',
      severity: 'error',
      path: 'train/dog/cut.jpg',
    })
    expect(body.validation.errors).toBe(1)
    expect(body.statistics.classes).toEqual([
      { name: 'cat', samples: 2, objects: 0, splits: { train: 1, test: 1 } },
      { name: 'dog', samples: 3, objects: 0, splits: { train: 3 } },
    ])
    const { body: list } = await developer.get(`/api/v1/datasets/${id}/files?status=DUPLICATE`)
    expect(list.items.map((file: { path: string }) => file.path)).toEqual(['train/cat/1.jpg'])
  })
})
