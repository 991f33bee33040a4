import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { servedImage } from '../../../test/served-image.ts'
import { colourTensor, endServing, whenDeployed, whenEndpoint } from './endpoint.fixture.ts'
import { startingMax } from './replica-plan.ts'

const path = '/api/v1/serving/endpoints/rolling'
let platform: TestPlatform
let client: TestClient
let first: { id: string; digest: string }
let second: { id: string; digest: string }
beforeAll(async () => {
  platform = await startTestPlatform()
  client = await platform.member('default', 'MAINTAINER')
  first = await servedImage(platform, { name: 'one' })
  second = await servedImage(platform, { name: 'two', description: { architecture: 'probe-2' } })
})
afterAll(() => endServing(platform))

/** Sends requests without a pause, four at a time, until it is told to end; gives the count of each status. */
function underLoad() {
  const counts: Record<string, number> = {}
  let ending = false
  const body = { instances: [colourTensor([0, 9, 0])] }
  const client4 = async () => {
    while (!ending) {
      const { status } = await client.post(`${path}/proxy/invocations`, body)
      counts[status] = (counts[status] ?? 0) + 1
      await sleep(2)
    }
  }
  const all = Promise.all([client4(), client4(), client4(), client4()])
  return async () => {
    ending = true
    await all
    return counts
  }
}

test('no request fails while the endpoint is scaled up, rolled over to another image, and scaled down', async () => {
  await client.post('/api/v1/serving/endpoints', { name: 'rolling', image_id: first.id, replicas: 1, gpu: 0 })
  await whenEndpoint(client, 'rolling', 'RUNNING')
  const end = underLoad()
  for (const change of [{ replicas: 2 }, { image_id: second.id }, { replicas: 1 }]) {
    const { body } = await client.patch(path, change)
    const deployment = await whenDeployed(client, body.deployment_id)
    expect(deployment, JSON.stringify(deployment)).toMatchObject({ state: 'READY' })
  }
  const counts = await end()
  expect(Object.keys(counts), JSON.stringify(counts)).toEqual(['200'])
  expect(counts['200']).toBeGreaterThan(5)
  const { body } = await client.get(path)
  expect(body).toMatchObject({ state: 'RUNNING', model_name: 'two', image_digest: second.digest })
  expect(body.instances).toMatchObject([{ image_digest: second.digest, restarts: 0, state: 'READY' }])
  expect((await client.delete(`/api/v1/images/${first.id}`)).status, 'the old image is let go').toBe(200)

  const metrics = await client.get(`${path}/metrics?range=15m`)
  expect(metrics.body).toMatchObject({ requests: counts['200'], error_rate: 0, ready_replicas: 1, step_seconds: 15 })
  expect(metrics.body.rps).toBeCloseTo(counts['200']! / 900, 5)
  expect(metrics.body.p50_ms).toBeGreaterThan(0)
  expect(metrics.body.p99_ms).toBeGreaterThanOrEqual(metrics.body.p50_ms)
  expect(metrics.body.history.length).toBe(60)
  const perInterval = metrics.body.history.map((point: { requests: number }) => point.requests)
  expect(perInterval.reduce((sum: number, requests: number) => sum + requests, 0)).toBe(counts['200'])
  const codes = await client.get(`${path}/status-codes`)
  expect(codes.body).toMatchObject({ total: counts['200'], '2xx': { count: counts['200'], ratio: 1 } })
  const text = (await platform.anonymous('GET', '/metrics')).text
  const sample = `platform_mlops_inference_requests_total{tenant="default",endpoint="rolling",code="200"} ${counts['200']}`
  expect(text).toContain(sample)
  await whenDeployed(client, (await client.delete(path)).body.deployment_id)
}, 600_000)

test('of many replicas a few start at a time, and the others wait for their turn', async () => {
  const replicas = startingMax + 2
  const created = await client.post('/api/v1/serving/endpoints', {
    name: 'many',
    image_id: second.id,
    replicas,
    gpu: 0,
  })
  const seen: Record<string, number>[] = []
  await eventually(async () => {
    const { body } = await client.get('/api/v1/serving/endpoints/many')
    const states = body.instances.map(({ state }: { state: string }) => state)
    const count = (state: string) => states.filter((other: string) => other === state).length
    seen.push({ STARTING: count('STARTING'), WAITING: count('WAITING') })
    return body.state === 'RUNNING'
  }, 240)
  expect(Math.max(...seen.map(({ STARTING }) => STARTING!))).toBeLessThanOrEqual(startingMax)
  expect(Math.max(...seen.map(({ WAITING }) => WAITING!))).toBe(2)
  const { body } = await client.get('/api/v1/serving/endpoints/many')
  expect(body.instances.map(({ restarts }: { restarts: number }) => restarts)).toEqual(Array(replicas).fill(0))
  expect(await whenDeployed(client, created.body.deployment_id)).toMatchObject({ state: 'READY' })
  await whenDeployed(client, (await client.delete('/api/v1/serving/endpoints/many')).body.deployment_id)
}, 600_000)
