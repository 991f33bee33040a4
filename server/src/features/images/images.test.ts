import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { registerModel } from '../../../test/model-version.ts'

// Real processes are started and images built: on a slow machine that takes its time.
vi.setConfig({ testTimeout: 300_000 })

let platform: TestPlatform
let client: TestClient
beforeAll(async () => {
  platform = await startTestPlatform()
  client = await platform.member('default', 'MAINTAINER')
})
afterAll(() => platform?.stop())

const ended = (id: string) =>
  eventually(async () => {
    const { body } = await client.get(`/api/v1/images/${id}`)
    return ['READY', 'FAILED', 'CANCELED'].includes(body.state) ? body : null
  }, 240)

describe('POST /api/v1/images', () => {
  test('202 builds the image and publishes it under the tenant, with a log and the run', async () => {
    const version = await registerModel(platform, { name: 'Flower Finder' })
    const reply = await client.post('/api/v1/images', { model_name: 'flower finder', version, builder_tag: '' })
    expect(reply.status, reply.text).toBe(202)
    expect(reply.body).toMatchObject({ model_name: 'Flower Finder', model_version: '1', builder_tag: 'default' })
    expect(reply.body).toMatchObject({ state: 'PENDING', progress: 0, digest: null, reference: null })
    const image = await ended(reply.body.id)
    expect(image).toMatchObject({ state: 'READY', progress: 1, error: null, tag: '1', created_by: client.email })
    expect(image.repository).toMatch(/^default\/models\/flower-finder-[0-9a-f]{8}$/)
    expect(image.reference.endsWith(`/${image.repository}:1@${image.digest}`)).toBe(true)
    expect(image.size_bytes).toBeGreaterThan(10_000_000)
    const manifest = JSON.parse(await text(image.digest))
    expect(manifest.layers.length).toBe(3)

    const log = await client.get(`/api/v1/images/${image.id}/logs`)
    expect(log.body).toMatchObject({ run_id: image.run_id, state: 'succeeded', truncated: false })
    expect(log.body.lines.at(-1)).toBe(`published as ${image.reference}`)
    const raw = await client.get(`/api/v1/images/${image.id}/logs/raw?run_id=${image.run_id}`)
    expect(raw.text).toBe(log.body.lines.map((line: string) => `${line}\n`).join(''))
    const runs = await client.get(`/api/v1/images/${image.id}/runs`)
    expect(runs.body.items).toMatchObject([{ run_id: image.run_id, state: 'succeeded', image_ref: image.reference }])
    const told = await client.get('/api/v1/notifications')
    expect(told.body.items[0]).toMatchObject({ group: 'images', link: `/images/${image.id}` })
    expect((await client.get(`/api/v1/images/${image.id}`, { headers: { 'if-none-match': '*' } })).status).toBe(304)
  })

  test('202 again gives the same digest: the build is reproducible and its layers are shared', async () => {
    const version = await registerModel(platform, { name: 'again' })
    const build = async () => ended((await client.post('/api/v1/images', { model_name: 'again', version })).body.id)
    const [first, second] = [await build(), await build()]
    expect(second.digest).toBe(first.digest)
    expect(second.id).not.toBe(first.id)
    const list = await client.get('/api/v1/images?model_name=AGAIN&model_version=1')
    expect(list.body.items.map((image: { id: string }) => image.id)).toEqual([second.id, first.id])
    expect((await client.get('/api/v1/images?model_name=again&model_version=2')).body).toEqual({ items: [], total: 0 })
    expect((await client.get('/api/v1/images?model_version=none')).body.total).toBe(0)
  })

  test('409 while the same build is under way, and :cancel stops it', async () => {
    const version = await registerModel(platform, { name: 'twice' })
    const replies = await Promise.all(
      [1, 2, 3].map(() => client.post('/api/v1/images', { model_name: 'twice', version })),
    )
    expect(replies.map(({ status }) => status).sort()).toEqual([202, 409, 409])
    expect(replies.find(({ status }) => status === 409)!.body.detail).toEqual({ reason: 'build_in_progress' })
    const { id } = replies.find(({ status }) => status === 202)!.body
    const gone = await client.delete(`/api/v1/images/${id}`)
    const canceled = await client.post(`/api/v1/images/${id}:cancel`)
    const image = await ended(id)
    // The build may have been quicker than we are: then both say so.
    if (canceled.status === 200) expect(['CANCELED', 'READY']).toContain(image.state)
    else expect(canceled.body.detail).toEqual({ reason: 'build_ended', state: 'READY' })
    expect(gone.status).toBe(canceled.status === 200 ? 409 : gone.status)
    const late = await client.post(`/api/v1/images/${id}:cancel`)
    expect([late.status, late.body.detail]).toEqual([409, { reason: 'build_ended', state: image.state }])
  })

  test('a build that waits behind others is CANCELED at once, and stays so when its turn comes', async () => {
    const names = ['front-one', 'front-two', 'waits']
    const built = []
    for (const name of names) {
      const version = await registerModel(platform, { name })
      built.push((await client.post('/api/v1/images', { model_name: name, version })).body.id)
    }
    const waiting = built[2]
    const canceled = await client.post(`/api/v1/images/${waiting}:cancel`)
    // The others may have been quicker than we are: then it was no longer waiting.
    if (canceled.status === 200) expect(['CANCELED', 'BUILDING', 'PUSHING']).toContain(canceled.body.state)
    const image = await ended(waiting)
    for (const id of built) await ended(id)
    await eventually(async () => {
      const { items } = (await client.get(`/api/v1/images/${waiting}/runs`)).body
      return ['canceled', 'succeeded'].includes(items[0].state)
    }, 240)
    expect((await client.get(`/api/v1/images/${waiting}`)).body).toEqual(image)
  })

  test('FAILED with the reason when the model cannot be served; the check says the same beforehand', async () => {
    const version = await registerModel(platform, { name: 'half', without: ['model.onnx'] })
    const check = await client.get(`/api/v1/images/model-check?model_name=half&version=${version}`)
    const message = 'The version has no file model.onnx.'
    expect(check.body).toEqual({
      model_name: 'half',
      version: '1',
      ok: false,
      issues: [{ code: 'file_missing', message, path: 'model.onnx' }],
    })
    const image = await ended((await client.post('/api/v1/images', { model_name: 'half', version })).body.id)
    expect(image).toMatchObject({ state: 'FAILED', error: { message, step: 'check' }, digest: null })
    expect(image.ended_at).not.toBeNull()
  })

  test('404 for an unknown version, 422 for a builder there is not', async () => {
    const unknown = await client.post('/api/v1/images', { model_name: 'nothing', version: '1' })
    expect(unknown.status).toBe(404)
    const version = await registerModel(platform, { name: 'odd-builder' })
    const body = { model_name: 'odd-builder', version, builder_tag: 'mine' }
    const reply = await client.post('/api/v1/images', body)
    expect([reply.status, reply.body.detail[0].loc]).toEqual([422, ['body', 'builder_tag']])
  })
})

describe('GET /api/v1/images/model-check', () => {
  test('200 tells an unsupported task, a broken description and a lost file apart', async () => {
    const issuesOf = async (name: string) =>
      (await client.get(`/api/v1/images/model-check?model_name=${name}&version=1`)).body.issues
    await registerModel(platform, { name: 'detector', description: { task: 'object_detection' } })
    expect(await issuesOf('detector')).toMatchObject([{ code: 'task_unsupported', path: 'model.json' }])
    await registerModel(platform, { name: 'old-format', description: { format: 0 } })
    expect(await issuesOf('old-format')).toMatchObject([{ code: 'description_invalid', path: 'model.json' }])
    await registerModel(platform, { name: 'lossy', description: { unlike: 'others' }, lost: ['model.json'] })
    expect(await issuesOf('lossy')).toMatchObject([{ code: 'file_lost', path: 'model.json' }])
    await registerModel(platform, { name: 'fine' })
    expect(await issuesOf('fine')).toEqual([])
    expect((await client.get('/api/v1/images/model-check?model_name=fine&version=9')).status).toBe(404)
    expect((await client.get('/api/v1/images/model-check?model_name=fine')).status).toBe(422)
  })
})

describe('GET /api/v1/images/diagnostics', () => {
  test('200 looks at builder, storage, disk and queue', async () => {
    const { body } = await client.get('/api/v1/images/diagnostics')
    expect(body.checks.map(({ name }: { name: string }) => name)).toEqual(['builder', 'storage', 'disk', 'queue'])
    expect(body.ok).toBe(body.checks.every(({ ok }: { ok: boolean }) => ok))
    expect(body.checks[0], JSON.stringify(body)).toMatchObject({ name: 'builder', ok: true })
  })
})

describe('/api/v1/images/{image_id}', () => {
  test('200 DELETE forgets it; 404 afterwards, and for every other tenant', async () => {
    await platform.tenant('other-images')
    const stranger = await platform.member('other-images', 'ADMIN')
    const version = await registerModel(platform, { name: 'short-lived' })
    const { id, run_id } = await ended(
      (await client.post('/api/v1/images', { model_name: 'short-lived', version })).body.id,
    )
    for (const path of ['', '/runs', '/logs', '/logs/raw'])
      expect((await stranger.get(`/api/v1/images/${id}${path}`)).status, path).toBe(404)
    expect((await stranger.post(`/api/v1/images/${id}:cancel`)).status).toBe(404)
    expect((await stranger.delete(`/api/v1/images/${id}`)).status).toBe(404)
    expect((await stranger.get('/api/v1/images')).body.total).toBe(0)
    const other = (await client.get('/api/v1/images')).body.items.find((image: { id: string }) => image.id !== id)
    expect((await client.get(`/api/v1/images/${other.id}/logs?run_id=${run_id}`)).status).toBe(404)
    expect((await client.delete(`/api/v1/images/${id}`)).body).toEqual({ id })
    expect((await client.get(`/api/v1/images/${id}`)).status).toBe(404)
    expect((await client.get('/api/v1/images/no-uuid')).status).toBe(422)
  })
})

async function text(digest: string): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of await platform.services.blobs.open(digest)) pieces.push(piece as Buffer)
  return Buffer.concat(pieces).toString()
}
