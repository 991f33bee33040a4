import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { createTrackerRun, putRunArtifacts } from '../tracker/tracker.api.ts'
import { type NewModelVersion, registerModelVersion } from './models.api.ts'

let platform: TestPlatform
let viewer: TestClient
let developer: TestClient
let stranger: TestClient
let tenant: { id: string; code: string }
let name: string
let count = 0
beforeAll(async () => {
  platform = await startTestPlatform()
  tenant = await platform.tenant('ours')
  await platform.tenant('theirs')
  viewer = await platform.member('ours', 'VIEWER')
  developer = await platform.member('ours', 'DEVELOPER')
  stranger = await platform.member('theirs', 'ADMIN')
})
afterAll(() => platform?.stop())
beforeEach(() => {
  name = `Model-${count++}`
})

/** Registers a version with files of these contents. */
async function register(
  files: Record<string, string> = { 'model.onnx': 'weights' },
  more: Partial<NewModelVersion> = {},
) {
  const stored = await Promise.all(
    Object.entries(files).map(async ([path, text]) => ({
      path,
      ...(await platform.services.blobs.put(Readable.from([Buffer.from(text)]))),
    })),
  )
  const { services } = platform
  const actor = {
    userId: developer.userId,
    email: developer.email,
    fullName: null,
    isSuperuser: false,
    sessionId: null,
  }
  return transaction(services.db, { tenantId: tenant.id }, (tx) =>
    registerModelVersion(
      tx,
      { tenant, actor, clock: services.clock },
      {
        name,
        runId: '0'.repeat(32),
        experimentId: '0',
        dataset: { id: 'd', name: 'flowers', digest: 'sha256:1' },
        files: stored,
        task: 'image_classification',
        framework: 'torchvision',
        architecture: 'resnet18',
        classes: ['daisy'],
        signature: { inputs: [] },
        metrics: { top1: 0.9 },
        environment: { torch: '2' },
        ...more,
      },
    ),
  )
}
const setStage = (version: string, stage: string) =>
  developer.post(`/api/v1/models/${name}/${version}/stage`, { stage, reason: 'a test' })
const toProduction = (version: string) =>
  transaction(platform.services.db, 'system', (tx) =>
    tx.updateTable('modelVersions').set({ stage: 'Production' }).where('version', '=', Number(version)).execute(),
  )

describe('GET /api/v1/models', () => {
  test('200 shows the stage matrix, sorted and searched, and only what is of the tenant', async () => {
    await register()
    await register()
    await setStage('1', 'Archived')
    const page = await viewer.get(`/api/v1/models?q=${name.toLowerCase()}&sort=versions`)
    expect(page.body).toMatchObject({ total: 1, page: 1, page_size: 20 })
    expect(page.body.items[0]).toMatchObject({
      name,
      versions: 2,
      latest_version: '2',
      stages: {
        none: { count: 1, latest_version: '2' },
        archived: { count: 1, latest_version: '1' },
        staging: null,
        production: null,
      },
    })
    expect((await stranger.get(`/api/v1/models?q=${name}`)).body.total).toBe(0)
  })

  test('200 with production=true or false only models with or without one in Production', async () => {
    await register()
    await toProduction('1')
    const names = async (production: string) =>
      (await viewer.get(`/api/v1/models?production=${production}&q=${name}`)).body.items.map(
        (m: { name: string }) => m.name,
      )
    expect(await names('true')).toEqual([name])
    expect(await names('false')).toEqual([])
  })
})

describe('GET /api/v1/models/summary', () => {
  test('200 counts versions per stage', async () => {
    const before = (await viewer.get('/api/v1/models/summary')).body
    await register()
    await setStage('1', 'Staging')
    const after = (await viewer.get('/api/v1/models/summary')).body
    expect(after.staging).toBe(before.staging + 1)
    expect(after.models).toBe(before.models + 1)
  })
})

describe('GET /api/v1/models/{name}', () => {
  test('200 in any case, canonical out; 404 for another tenant', async () => {
    await register()
    expect((await viewer.get(`/api/v1/models/${name.toUpperCase()}`)).body.name).toBe(name)
    expect((await stranger.get(`/api/v1/models/${name}`)).status).toBe(404)
  })
})

describe('GET /api/v1/models/{name}/versions', () => {
  test('200 newest first, by page', async () => {
    for (let i = 0; i < 3; i++) await register()
    const page = await viewer.get(`/api/v1/models/${name}/versions?page_size=2`)
    expect(page.body).toMatchObject({ total: 3, page_size: 2 })
    expect(page.body.items.map((v: { version: string }) => v.version)).toEqual(['3', '2'])
    expect((await stranger.get(`/api/v1/models/${name}/versions`)).status).toBe(404)
  })
})

describe('GET /api/v1/models/{name}/versions/{version}', () => {
  test('200 with files, lineage and history', async () => {
    await register()
    await setStage('1', 'Staging')
    const { body } = await viewer.get(`/api/v1/models/${name}/versions/1`)
    expect(body).toMatchObject({
      stage: 'Staging',
      files: 1,
      size_bytes: 7,
      file_list: [{ path: 'model.onnx', size: 7 }],
      lineage: { dataset: { name: 'flowers' }, experiment: null, environment: { torch: '2' } },
    })
    expect(body.history.map((period: { stage: string }) => period.stage)).toEqual(['None', 'Staging'])
    expect(body.history[0].to).toBe(body.history[1].from)
    expect(body.history[1]).toMatchObject({ to: null, actor: developer.email, reason: 'a test' })
  })

  test('404 for a version that is not there, is no number, or is of another tenant', async () => {
    await register()
    for (const version of ['2', '0', 'download', '1.0', '99999999999999'])
      expect((await viewer.get(`/api/v1/models/${name}/versions/${version}`)).status, version).toBe(404)
    expect((await stranger.get(`/api/v1/models/${name}/versions/1`)).status).toBe(404)
  })
})

describe('GET /api/v1/models/{name}/compare', () => {
  test('200 shows two versions side by side, per class as their runs were evaluated', async () => {
    const runs = [await trackedRun('0.1', 0.5), await trackedRun('0.2', 0.75)]
    await register({ 'model.onnx': 'weights' }, { runId: runs[0]!, metrics: { top1: 0.5 }, classes: ['daisy', 'rose'] })
    await register(
      { 'model.onnx': 'weights!' },
      { runId: runs[1]!, metrics: { top1: 0.75 }, classes: ['daisy', 'tulip'] },
    )
    const { body } = await viewer.get(`/api/v1/models/${name}/compare?from=1&to=2`)
    expect(body.params).toEqual([{ key: 'lr', from: '0.1', to: '0.2', changed: true }])
    expect(body.metrics).toEqual([{ key: 'top1', from: 0.5, to: 0.75, change: 0.25 }])
    expect(body.per_class).toEqual([
      {
        class: 'daisy',
        from: { precision: 0.5, recall: 0.5, f1: 0.5, support: 4 },
        to: { precision: 0.75, recall: 0.75, f1: 0.75, support: 4 },
      },
    ])
    expect(body).toMatchObject({
      classes_added: ['tulip'],
      classes_removed: ['rose'],
      same_dataset: true,
      same_signature: true,
      from: { size_bytes: 7 },
      to: { size_bytes: 8 },
    })
  })

  test('422 without both versions, 404 for one that is not there or of another tenant', async () => {
    await register()
    expect((await viewer.get(`/api/v1/models/${name}/compare?from=1`)).status).toBe(422)
    expect((await viewer.get(`/api/v1/models/${name}/compare?from=1&to=2`)).status).toBe(404)
    expect((await stranger.get(`/api/v1/models/${name}/compare?from=1&to=1`)).status).toBe(404)
  })
})

describe('GET /api/v1/models/{name}/performance and /distribution', () => {
  test('200 with nothing to show and the reason; 422 for a range that is none; 404 for another tenant', async () => {
    await register()
    const performance = await viewer.get(`/api/v1/models/${name}/performance?range=1d`)
    expect(performance.body).toEqual({ name, range_ms: 86_400_000, series: [], reason: 'no_ground_truth' })
    const distribution = await viewer.get(`/api/v1/models/${name}/distribution?baseline=training`)
    expect(distribution.body).toMatchObject({ baseline: 'training', bins: [], psi: null, reason: 'no_prediction_data' })
    expect((await viewer.get(`/api/v1/models/${name}/performance?range=long`)).status).toBe(422)
    for (const what of ['performance', 'distribution'])
      expect((await stranger.get(`/api/v1/models/${name}/${what}`)).status).toBe(404)
  })
})

describe('GET /api/v1/models/{name}/{version}/download', () => {
  const path = () => `/api/v1/models/${name}/1/download`

  test('200 gives one file as it is, 206 a part of it, 304 when it is known, 416 beyond its end', async () => {
    await register({ 'model.onnx': 'weights' })
    const whole = await viewer.get(path())
    expect([whole.status, whole.text, whole.headers.get('content-length')]).toEqual([200, 'weights', '7'])
    expect(whole.headers.get('content-disposition')).toContain(`${name}-1.onnx`)
    const part = await viewer.get(path(), { headers: { range: 'bytes=1-3' } })
    expect([part.status, part.text, part.headers.get('content-range')]).toEqual([206, 'eig', 'bytes 1-3/7'])
    const etag = whole.headers.get('etag')!
    expect(etag).toBe(`"${createHash('sha256').update('weights').digest('hex')}"`)
    expect((await viewer.get(path(), { headers: { 'if-none-match': etag } })).status).toBe(304)
    expect((await viewer.get(path(), { headers: { range: 'bytes=7-' } })).status).toBe(416)
  })

  test('200 gives several files as a ZIP of the announced length', async () => {
    await register({ 'model.onnx': 'weights', MLmodel: 'flavors' })
    const answer = await fetch(platform.url + path(), {
      headers: { authorization: `Bearer ${viewer.token}`, 'x-tenant': 'ours' },
    })
    const zip = Buffer.from(await answer.arrayBuffer())
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/zip'])
    expect(Number(answer.headers.get('content-length'))).toBe(zip.length)
    expect(zip.includes('model.onnxweights') && zip.includes('MLmodelflavors')).toBe(true)
  })

  test('404 for another tenant and for a version without files', async () => {
    await register({})
    expect((await viewer.get(path())).status).toBe(404)
    expect((await stranger.get(path())).status).toBe(404)
  })
})

describe('/api/v1/models/{name}/{version}/comments', () => {
  test('201 keeps the comment, 200 lists it newest first; 404 for another tenant', async () => {
    await register()
    const path = `/api/v1/models/${name}/1/comments`
    for (const body of ['first', 'second']) expect((await developer.post(path, { body })).status).toBe(201)
    const list = (await viewer.get(path)).body
    expect(list).toMatchObject({ total: 2, items: [{ body: 'second', author: developer.email }, { body: 'first' }] })
    expect((await stranger.get(path)).status).toBe(404)
    expect((await stranger.post(path, { body: 'x' })).status).toBe(404)
    expect((await developer.post(path, { body: '  ' })).status).toBe(422)
  })
})

describe('POST /api/v1/models/{name}/{version}/stage', () => {
  test('200 in any case of the word; the same stage again leaves no trace', async () => {
    await register()
    expect((await setStage('1', 'staging')).body.stage).toBe('Staging')
    expect((await setStage('1', 'Staging')).status).toBe(200)
    expect((await viewer.get(`/api/v1/models/${name}/versions/1`)).body.history).toHaveLength(2)
  })

  test('400 for Production lists what is allowed, 422 for any other word', async () => {
    await register()
    const reply = await setStage('1', 'Production')
    expect([reply.status, reply.body.detail]).toEqual([400, { allowed: ['None', 'Staging', 'Archived'] }])
    expect((await setStage('1', 'Live')).status).toBe(422)
    expect((await stranger.post(`/api/v1/models/${name}/1/stage`, { stage: 'Staging' })).status).toBe(404)
  })
})

describe('DELETE /api/v1/models/{name}/{version}', () => {
  test('204 removes it, and its number is never given again', async () => {
    await register()
    await register()
    expect((await stranger.delete(`/api/v1/models/${name}/2`)).status).toBe(404)
    expect((await developer.delete(`/api/v1/models/${name}/2`)).status).toBe(204)
    expect((await developer.delete(`/api/v1/models/${name}/2`)).status).toBe(404)
    expect((await register()).version).toBe('3')
  })

  test('409 while it is in Production, and while something stands on it', async () => {
    const { modelId } = await register()
    await toProduction('1')
    expect((await developer.delete(`/api/v1/models/${name}/1`)).status).toBe(409)
    await setStage('1', 'Archived')
    await standOn(modelId)
    const reply = await developer.delete(`/api/v1/models/${name}/1`)
    expect([reply.status, reply.body.code]).toEqual([409, 'conflict'])
    expect((await viewer.get(`/api/v1/models/${name}/versions/1`)).body.history).toHaveLength(2)
  })
})

describe('DELETE /api/v1/models/{name}', () => {
  test('204 removes all versions; 409 while one is in Production', async () => {
    await register()
    await register()
    await toProduction('2')
    expect((await developer.delete(`/api/v1/models/${name}`)).status).toBe(409)
    await setStage('2', 'None')
    expect((await stranger.delete(`/api/v1/models/${name}`)).status).toBe(404)
    expect((await developer.delete(`/api/v1/models/${name}`)).status).toBe(204)
    expect((await viewer.get(`/api/v1/models/${name}/versions`)).status).toBe(404)
  })
})

/** A run with a parameter and the report that an evaluation leaves. */
async function trackedRun(lr: string, figure: number): Promise<string> {
  const { services } = platform
  const row = { class: 'daisy', precision: figure, recall: figure, f1: figure, support: 4, predicted: 4 }
  const report = JSON.stringify({ per_class: [row] })
  const blob = await services.blobs.put(Readable.from([Buffer.from(report)]))
  const actor = {
    userId: developer.userId,
    email: developer.email,
    fullName: null,
    isSuperuser: false,
    sessionId: null,
  }
  const ctx = { tenant, actor, clock: services.clock }
  return transaction(services.db, { tenantId: tenant.id }, async (tx) => {
    const run = { experimentName: 'compared', runName: 'r', tags: {}, params: { lr } }
    const { runId } = await createTrackerRun(tx, ctx, run)
    await putRunArtifacts(tx, ctx, runId, [{ path: 'evaluation.json', ...blob }])
    return runId
  })
}

/** What an endpoint does: a foreign key that restricts. */
async function standOn(modelId: string): Promise<void> {
  const { default: pg } = await import('pg')
  const client = new pg.Client({ connectionString: platform.database.ownerUrl })
  await client.connect()
  try {
    await client.query(`
      create table stands_on (tenant_id uuid, model_id uuid, version integer,
        foreign key (tenant_id, model_id, version) references model_versions on delete restrict)`)
    await client.query('insert into stands_on values ($1, $2, 1)', [tenant.id, modelId])
  } finally {
    await client.end()
  }
}
