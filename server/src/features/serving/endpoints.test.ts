import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { colourTensor, endWorks, readyImage, whenDeployed, whenEndpoint } from './endpoint.fixture.ts'

let platform: TestPlatform
let client: TestClient
let imageId: string
beforeAll(async () => {
  platform = await startTestPlatform()
  client = await platform.member('default', 'MAINTAINER')
  imageId = (await readyImage(platform, client, { name: 'probe' })).id
})
afterAll(async () => {
  await platform?.instance.stop()
  if (platform) await endWorks(platform)
  await platform?.stop()
})

const predict = (name: string) =>
  client.post(`/api/v1/serving/endpoints/${name}/proxy/invocations`, { instances: [colourTensor([9, 0, 0])] })
const deployment = async (id: string) => (await client.get(`/api/v1/deployments/${id}`)).body

describe('/api/v1/serving/endpoints', () => {
  test('201 to RUNNING, predicts, stops, starts and goes: the whole life', async () => {
    const body = { name: 'whole-life', image_id: imageId, replicas: 1, gpu: 0 }
    const created = await client.post('/api/v1/serving/endpoints', body)
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
    expect(done.steps.map((step: { state: string }) => step.state)).toContain('succeeded')

    const stopped = await client.post('/api/v1/serving/endpoints/whole-life/stop')
    expect(stopped.body.state).toBe('STOPPED')
    const refused = await predict('whole-life')
    expect([refused.status, refused.body.code, refused.body.detail]).toEqual([
      503,
      'service_unavailable',
      { state: 'STOPPED' },
    ])
    expect((await whenDeployed(client, stopped.body.deployment_id)).state).toBe('READY')
    expect((await platform.services.adapters.compute.list()).length).toBe(0)
    const again = await client.post('/api/v1/serving/endpoints/whole-life/stop')
    expect(again.body.deployment_id, 'stopping a stopped one does nothing').toBe(stopped.body.deployment_id)

    const started = await client.post('/api/v1/serving/endpoints/whole-life/start')
    expect(started.body).toMatchObject({ state: 'CONNECTING', replicas: 1 })
    await whenEndpoint(client, 'whole-life', 'RUNNING')
    expect((await predict('whole-life')).status).toBe(200)
    const twice = await client.post('/api/v1/serving/endpoints/whole-life/start')
    expect(twice.body.deployment_id, 'starting a running one does nothing').toBe(started.body.deployment_id)

    const gone = await client.delete('/api/v1/serving/endpoints/whole-life')
    expect([gone.status, gone.body.state]).toEqual([200, 'DELETING'])
    await eventually(async () => (await client.get('/api/v1/serving/endpoints/whole-life')).status === 404)
    expect((await platform.services.adapters.compute.list()).length).toBe(0)
    expect(await deployment(gone.body.deployment_id)).toMatchObject({ action: 'delete', state: 'READY' })
  })
})
