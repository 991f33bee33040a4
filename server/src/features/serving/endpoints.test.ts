import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { listen } from '../../../test/event-client.ts'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { servedImage } from '../../../test/served-image.ts'
import { colourTensor, endServing, whenDeployed, whenEndpoint } from './endpoint.fixture.ts'
import { reconcile } from './reconcile.ts'

// Real processes are started and images built: on a slow machine that takes its time.
vi.setConfig({ testTimeout: 300_000 })

let platform: TestPlatform
let client: TestClient
let imageId: string
beforeAll(async () => {
  platform = await startTestPlatform()
  client = await platform.member('default', 'MAINTAINER')
  imageId = (await servedImage(platform, { name: 'probe' })).id
})
afterAll(() => endServing(platform))

const predict = (name: string) =>
  client.post(`/api/v1/serving/endpoints/${name}/proxy/invocations`, { instances: [colourTensor([9, 0, 0])] })
const works = () => platform.services.adapters.compute.list()
const create = (name: string, more: object = {}) =>
  client.post('/api/v1/serving/endpoints', { name, image_id: imageId, replicas: 1, gpu: 0, ...more })
const tenantIdOf = async (code: string): Promise<string> => {
  const { rows } = await platform.services.db.pool.query('select id from tenants where code = $1', [code])
  return rows[0].id
}
const remove = async (name: string) => {
  const { body } = await client.delete(`/api/v1/serving/endpoints/${name}`)
  await whenDeployed(client, body.deployment_id)
}

describe('/api/v1/serving/endpoints', () => {
  test('201 to RUNNING, predicts, stops, starts and goes: the whole life', async () => {
    const created = await create('whole-life')
    expect(created.status, created.text).toBe(201)
    expect(created.body).toMatchObject({ name: 'whole-life', state: 'PENDING', replicas: 1, ready_replicas: 0, gpu: 0 })
    expect(created.body).toMatchObject({ model_name: 'probe', model_version: '1', image_id: imageId, error: null })
    const running = await whenEndpoint(client, 'whole-life', 'RUNNING', 'FAILED')
    expect(running, JSON.stringify(running)).toMatchObject({ state: 'RUNNING', ready_replicas: 1, error: null })
    expect(running.instances).toMatchObject([{ state: 'READY', restarts: 0, failure: null }])
    const answer = await predict('whole-life')
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body.predictions).toMatchObject([{ label: 'red', class_id: 0 }])
    const done = await whenDeployed(client, created.body.deployment_id)
    expect(done).toMatchObject({ state: 'READY', action: 'create', endpoint: 'whole-life', replicas: 1, error: null })

    const stopped = await client.post('/api/v1/serving/endpoints/whole-life/stop')
    expect(stopped.body.state).toBe('STOPPED')
    const refused = await predict('whole-life')
    expect([refused.status, refused.body.detail]).toEqual([503, { state: 'STOPPED' }])
    expect((await whenDeployed(client, stopped.body.deployment_id)).state).toBe('READY')
    expect(await works()).toEqual([])
    const again = await client.post('/api/v1/serving/endpoints/whole-life/stop')
    expect(again.body.deployment_id, 'stopping a stopped one does nothing').toBe(stopped.body.deployment_id)
    const scaled = await client.patch('/api/v1/serving/endpoints/whole-life', { replicas: 2 })
    expect([scaled.status, scaled.body.detail]).toEqual([409, { reason: 'stopped' }])

    const started = await client.post('/api/v1/serving/endpoints/whole-life/start')
    expect(started.body).toMatchObject({ state: 'CONNECTING', replicas: 1 })
    await whenEndpoint(client, 'whole-life', 'RUNNING')
    expect((await predict('whole-life')).status).toBe(200)
    const twice = await client.post('/api/v1/serving/endpoints/whole-life/start')
    expect(twice.body.deployment_id, 'starting a running one does nothing').toBe(started.body.deployment_id)

    const gone = await client.delete('/api/v1/serving/endpoints/whole-life')
    expect([gone.status, gone.body.state]).toEqual([200, 'DELETING'])
    const late = await client.post('/api/v1/serving/endpoints/whole-life/start')
    expect([late.status, late.body.detail]).toEqual([409, { reason: 'deleting' }])
    await eventually(async () => (await client.get('/api/v1/serving/endpoints/whole-life')).status === 404, 240)
    expect(await works()).toEqual([])
    const actions = await client.get('/api/v1/deployments?endpoint=whole-life&page_size=3')
    expect(actions.body).toMatchObject({ total: 4, page_size: 3 })
    expect(actions.body.items.map((item: { action: string }) => item.action)).toEqual(['delete', 'start', 'stop'])
  })

  test('409 no_gpu_share, name_taken, image_not_ready, model_deleted; 404 for an image there is not', async () => {
    const reasonOf = async (body: object) => {
      const reply = await create('refused', body)
      return [reply.status, reply.body.detail?.reason ?? null]
    }
    expect(await reasonOf({ gpu: 1 })).toEqual([409, 'no_gpu_share'])
    expect(await reasonOf({ image_id: '0198c0de-0000-7000-8000-000000000000' })).toEqual([404, null])
    const orphan = await servedImage(platform, { name: 'orphan' })
    expect((await client.delete('/api/v1/models/orphan')).status).toBe(204)
    expect(await reasonOf({ image_id: orphan.id })).toEqual([409, 'model_deleted'])
    await platform.services.blobs.check()
    const unbuilt = await client.post('/api/v1/images', { model_name: 'probe', version: '1' })
    await client.post(`/api/v1/images/${unbuilt.body.id}:cancel`)
    const image = await eventually(async () => {
      const { body } = await client.get(`/api/v1/images/${unbuilt.body.id}`)
      return body.ended_at ? body : null
    }, 240)
    if (image.state === 'CANCELED') expect(await reasonOf({ image_id: image.id })).toEqual([409, 'image_not_ready'])
    expect((await create('taken')).status).toBe(201)
    const clash = await create('taken')
    expect([clash.status, clash.body.detail]).toEqual([409, { reason: 'name_taken' }])
    await remove('taken')
  })

  test.each([
    ['name', { name: 'Upper' }],
    ['name', { name: '-x' }],
    ['name', { name: 'x'.repeat(64) }],
    ['gpu', { gpu: -1 }],
    ['replicas', { replicas: 0 }],
    ['replicas', { replicas: 101 }],
    ['image_id', { image_id: 'no-uuid' }],
    ['validation_dataset_id', { validation_dataset_id: 'no-such-dataset' }],
  ])('422 names %s for %j', async (field, body) => {
    const reply = await create('unfit', body)
    expect(reply.status).toBe(422)
    expect(reply.body.detail[0].loc).toEqual(['body', field])
  })
})

describe('an endpoint with two replicas', () => {
  test('serves through one when the other is killed, is DEGRADED meanwhile, and recovers', async () => {
    const created = await create('pair', { replicas: 2 })
    const stream = await listen(
      platform.url,
      client,
      `/api/v1/stream/deployments/${created.body.deployment_id}?tenant=default`,
    )
    const { instances } = await whenEndpoint(client, 'pair', 'RUNNING')
    await stream.until('"state":"READY"')
    stream.close()
    expect(stream.text()).toContain(`"channel":"deployments:${created.body.deployment_id}"`)
    expect(stream.text()).toMatch(
      /event: deployment\ndata: \{"id":"[^"]+","endpoint":"pair","state":"ROLLING","step":"ready"/,
    )

    const [work] = await works()
    const { pid, address } = work!.status as { pid: number; address: string }
    process.kill(-pid, 'SIGKILL')
    await eventually(() =>
      fetch(`http://${address}/ping`).then(
        () => false,
        () => true,
      ),
    )
    // Before anybody has noticed: what cannot be reached is passed over.
    for (let request = 0; request < 20; request++) expect((await predict('pair')).status).toBe(200)
    const degraded = await whenEndpoint(client, 'pair', 'DEGRADED')
    expect(degraded).toMatchObject({ ready_replicas: 1, error: { message: expect.stringMatching(/vanished|SIGKILL/) } })
    const recovered = await whenEndpoint(client, 'pair', 'RUNNING')
    expect(recovered).toMatchObject({ ready_replicas: 2, error: null })
    const restarts = recovered.instances.map((instance: { restarts: number }) => instance.restarts)
    expect(restarts.sort()).toEqual([0, 1])
    expect(recovered.instances.map(({ id }: { id: string }) => id).sort()).toEqual(
      instances.map(({ id }: { id: string }) => id).sort(),
    )

    const logs = await client.get('/api/v1/serving/endpoints/pair/logs?lines=1')
    expect(logs.body.replicas.length).toBe(2)
    for (const { lines } of logs.body.replicas) expect(lines[0]).toContain('"listening"')
    const checked = await client.post('/api/v1/serving/endpoints/pair/heartbeat')
    expect(checked.body).toMatchObject({ state: 'RUNNING', ready_replicas: 2 })
    expect(Date.parse(checked.body.checked_at)).toBeGreaterThan(Date.parse(recovered.created_at))
    await remove('pair')
  })
})

describe('what an endpoint serves', () => {
  test('409 for deleting its image or its model version, and its repository is held', async () => {
    const image = await servedImage(platform, { name: 'guarded' })
    await create('guard', { image_id: image.id })
    const imageGone = await client.delete(`/api/v1/images/${image.id}`)
    expect([imageGone.status, imageGone.body.detail]).toEqual([409, { reason: 'image_in_use' }])
    expect((await client.delete('/api/v1/models/guarded/1')).status).toBe(409)
    expect((await client.delete('/api/v1/models/guarded')).status).toBe(409)
    await remove('guard')
    expect((await client.delete(`/api/v1/images/${image.id}`)).status).toBe(200)
    expect((await client.delete('/api/v1/models/guarded/1')).status).toBe(204)
  })
})

describe('an image that does not start', () => {
  test('makes a new endpoint FAILED with the last words of the server', async () => {
    const broken = await servedImage(platform, { name: 'broken', description: { output: {} } })
    const created = await create('broken', { image_id: broken.id })
    const failed = await whenEndpoint(client, 'broken', 'FAILED')
    expect(failed.error).toMatchObject({ exit_code: 1, reason: 'exited' })
    expect(failed.error.message).toContain('model.json')
    const told = await client.get('/api/v1/notifications')
    expect(told.body.items[0]).toMatchObject({ group: 'serving', title: 'Endpoint broken is FAILED' })
    const deployment = await whenDeployed(client, created.body.deployment_id)
    expect(deployment).toMatchObject({ state: 'FAILED', error: { step: 'ready', reason: 'replica_crashes' } })
    const refused = await predict('broken')
    expect([refused.status, refused.body.detail]).toEqual([503, { state: 'FAILED' }])
    await remove('broken')
  })

  test('never takes the place of one that serves: the update goes back', async () => {
    const broken = await servedImage(platform, { name: 'worse', description: { output: {} } })
    await create('steady')
    const before = await whenEndpoint(client, 'steady', 'RUNNING')
    const updated = await client.patch('/api/v1/serving/endpoints/steady', { image_id: broken.id })
    expect(updated.body.image_id).toBe(broken.id)
    const deployment = await whenDeployed(client, updated.body.deployment_id)
    expect(deployment).toMatchObject({ action: 'update', state: 'FAILED', error: { reason: 'replica_crashes' } })
    expect((await predict('steady')).status).toBe(200)
    const after = await eventually(async () => {
      const { body } = await client.get('/api/v1/serving/endpoints/steady')
      return body.instances.length === 1 ? body : null
    }, 240)
    expect(after).toMatchObject({ state: 'RUNNING', image_id: imageId, instances: [{ id: before.instances[0].id }] })
    await remove('steady')
  })
})

describe('PATCH /api/v1/serving/endpoints/{name}', () => {
  test('422 says to use stop for 0 replicas; 412 when it was changed meanwhile; 403 for another image without DEPLOY', async () => {
    await create('patched')
    const none = await client.patch('/api/v1/serving/endpoints/patched', { replicas: 0 })
    expect([none.status, none.body.detail[0].msg]).toEqual([422, 'must be 1 or more; for 0 use stop'])
    const stale = await client.patch(
      '/api/v1/serving/endpoints/patched',
      { replicas: 2 },
      { headers: { 'if-match': '"old"' } },
    )
    expect(stale.status).toBe(412)
    const operator = await platform.member('default', 'OPERATOR')
    expect((await operator.patch('/api/v1/serving/endpoints/patched', { image_id: imageId })).status).toBe(403)
    const { body: before } = await client.get('/api/v1/serving/endpoints/patched')
    const same = await operator.patch('/api/v1/serving/endpoints/patched', { replicas: 1 })
    expect([same.status, same.body.deployment_id], 'nothing changes').toEqual([200, before.deployment_id])
    await remove('patched')
  })

  test('304 and 200 with the ETag of before while its replicas are only looked at', async () => {
    const { body: created } = await create('looked-at')
    await whenDeployed(client, created.deployment_id)
    const { headers, body } = await client.get('/api/v1/serving/endpoints/looked-at')
    const etag = headers.get('etag')!
    const ctx = {
      ...platform.services,
      kind: 'system',
      scope: 'system',
      actor: null,
      requestId: '',
      audit: null,
    } as const
    const tenantId = await tenantIdOf('default')
    for (let look = 0; look < 3; look++) await reconcile(ctx, { id: body.id, tenantId })
    const again = await client.get('/api/v1/serving/endpoints/looked-at', { headers: { 'if-none-match': etag } })
    expect(again.status).toBe(304)
    const changed = await client.patch(
      '/api/v1/serving/endpoints/looked-at',
      { replicas: 2 },
      { headers: { 'if-match': etag } },
    )
    expect(changed.status, changed.text).toBe(200)
    await remove('looked-at')
  })

  test('a later change takes over from one that is under way', async () => {
    const created = await create('hasty', { replicas: 2 })
    const stopped = await client.post('/api/v1/serving/endpoints/hasty/stop')
    const first = await whenDeployed(client, created.body.deployment_id)
    expect(first).toMatchObject({ state: 'FAILED', error: { reason: 'superseded' } })
    expect((await whenDeployed(client, stopped.body.deployment_id)).state).toBe('READY')
    expect((await client.get('/api/v1/serving/endpoints/hasty')).body).toMatchObject({
      state: 'STOPPED',
      instances: [],
    })
    await remove('hasty')
  })
})

describe('another tenant', () => {
  test('404 on every address of an endpoint and its deployment', async () => {
    await platform.tenant('stranger')
    const stranger = await platform.member('stranger', 'ADMIN')
    const { body } = await create('private')
    const path = '/api/v1/serving/endpoints/private'
    const replies = await Promise.all([
      ...['', '/logs', '/metrics', '/status-codes', '/validation', '/proxy/ping'].map((end) =>
        stranger.get(path + end),
      ),
      ...['/stop', '/start', '/heartbeat', '/validation', '/proxy/invocations'].map((end) => stranger.post(path + end)),
      stranger.patch(path, { replicas: 2 }),
      stranger.delete(path),
      stranger.get(`/api/v1/deployments/${body.deployment_id}`),
      stranger.get(`/api/v1/stream/deployments/${body.deployment_id}`),
      stranger.post('/api/v1/serving/endpoints', { name: 'theirs', image_id: imageId, replicas: 1, gpu: 0 }),
    ])
    expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 404))
    expect((await stranger.get('/api/v1/serving/endpoints')).body.total).toBe(0)
    expect((await stranger.get('/api/v1/deployments')).body.total).toBe(0)
    await remove('private')
  })
})
