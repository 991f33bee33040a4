import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { insertFrozenDataset } from '../../../test/frozen-dataset.ts'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { servedImage } from '../../../test/served-image.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { endServing, whenDeployed, whenEndpoint } from './endpoint.fixture.ts'
import { emptyTally, judge } from './validation-kpis.ts'

// Real processes are started and images built: on a slow machine that takes its time.
vi.setConfig({ testTimeout: 300_000 })

let platform: TestPlatform
let client: TestClient
beforeAll(async () => {
  platform = await startTestPlatform()
  client = await platform.member('default', 'MAINTAINER')
  const { id } = await transaction(platform.services.db, 'system', (tx) =>
    tx.selectFrom('tenants').select('id').where('code', '=', 'default').executeTakeFirstOrThrow(),
  )
  await insertFrozenDataset(platform.services, id, 'colours', { perClass: 20 })
})
afterAll(() => endServing(platform))

const path = (name: string) => `/api/v1/serving/endpoints/${name}/validation`
const ended = (name: string) =>
  eventually(async () => {
    const { body } = await client.get(path(name))
    return body.state === 'PASSED' || body.state === 'FAILED' ? body : null
  }, 60)

async function serve(name: string, metrics: Record<string, number>, dataset: string | null) {
  const image = await servedImage(platform, { name, metrics })
  const body = { name, image_id: image.id, replicas: 1, gpu: 0, validation_dataset_id: dataset }
  const created = await client.post('/api/v1/serving/endpoints', body)
  expect(created.status, created.text).toBe(201)
  expect((await client.get(path(name))).body).toMatchObject({ state: 'NOT_RUN', samples: null, kpis: [] })
  await whenEndpoint(client, name, 'RUNNING')
  await whenDeployed(client, created.body.deployment_id)
  return image
}

describe('/api/v1/serving/endpoints/{name}/validation', () => {
  test('PASSED by itself after the endpoint is made: the test split gave what the training measured', async () => {
    const image = await serve('good', { 'test/top1': 0.98 }, 'colours')
    const result = await ended('good')
    expect(result, JSON.stringify(result)).toMatchObject({
      ...{ state: 'PASSED', dataset_id: 'colours', image_digest: image.digest, errors: [] },
      ...{ samples: 15, correct: 15, failed: 0 },
    })
    expect(result.kpis).toMatchObject([
      { name: 'top1', value: 1, threshold: expect.closeTo(0.93), ok: true },
      { name: 'error_rate', value: 0, threshold: 0, ok: true },
      { name: 'p95_latency_ms', value: result.latency_ms.p95, threshold: null, ok: true },
    ])
    expect(result.latency_ms.p50).toBeGreaterThan(0)

    const again = await client.post(path('good'))
    expect([again.status, again.body.state]).toEqual([200, 'RUNNING'])
    const twice = await client.post(path('good'))
    // The first may have ended in between: it is quick.
    if (twice.status !== 200) expect([twice.status, twice.body.detail]).toEqual([409, { reason: 'already_running' }])
    expect((await ended('good')).run_id).not.toBe(result.run_id)
    await client.post('/api/v1/serving/endpoints/good/stop')
    const stopped = await client.post(path('good'))
    expect([stopped.status, stopped.body.detail]).toEqual([409, { reason: 'not_serving' }])
    await whenDeployed(client, (await client.delete('/api/v1/serving/endpoints/good')).body.deployment_id)
  })

  test('409 no_validation_dataset for an endpoint without one', async () => {
    await serve('bare', {}, null)
    const reply = await client.post(path('bare'))
    expect([reply.status, reply.body.detail]).toEqual([409, { reason: 'no_validation_dataset' }])
    await whenDeployed(client, (await client.delete('/api/v1/serving/endpoints/bare')).body.deployment_id)
  })
})

describe('the judgement', () => {
  const tally = (correct: number, failed = 0) => ({
    ...emptyTally(),
    sent: 100,
    correct,
    failed,
    latenciesMs: [1, 2, 3],
  })

  test.each([
    [tally(93), { 'test/top1': 0.98 }, 'PASSED'],
    [tally(92), { 'test/top1': 0.98 }, 'FAILED'],
    [tally(92), { 'test/top1': 0.9, 'val/top1': 0.99 }, 'PASSED'],
    [tally(80), { 'val/top1': 0.9 }, 'FAILED'],
    [tally(1), {}, 'PASSED'],
    [tally(99, 1), {}, 'FAILED'],
    [emptyTally(), {}, 'FAILED'],
  ])('of %j beside %j is %s', (seen, metrics, state) => {
    expect(judge(seen, metrics as Record<string, number>).state).toBe(state)
  })
})
