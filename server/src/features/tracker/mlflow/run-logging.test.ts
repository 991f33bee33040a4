import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestPlatform } from '../../../../test/harness.ts'
import { type TrackingClient, trackingClient } from './tracking-client.testing.ts'

let platform: TestPlatform
let ours: TrackingClient
let runId: string
beforeAll(async () => {
  platform = await startTestPlatform()
  await platform.tenant('ours')
  ours = await trackingClient(platform, await platform.member('ours', 'DEVELOPER'))
})
afterAll(() => platform?.stop())
beforeEach(async () => {
  runId = (await ours.post('/mlflow/runs/create', { experiment_id: '0' })).body.run.info.run_id
})

describe('POST /tracker/api/2.0/mlflow/runs/log-batch', () => {
  const metric = (i: number) => ({ key: `m${i}`, value: i, timestamp: 1, step: 0 })
  const pair = (i: number) => ({ key: `k${i}`, value: 'v' })
  const list = <T>(length: number, make: (i: number) => T) => Array.from({ length }, (_, i) => make(i))
  const log = (batch: object) => ours.post('/mlflow/runs/log-batch', { run_id: runId, ...batch })

  test('200 at every limit', async () => {
    expect((await log({ metrics: list(1000, metric) })).status).toBe(200)
    expect((await log({ metrics: list(800, metric), params: list(100, pair), tags: list(100, pair) })).status).toBe(200)
    expect((await log({ params: [{ key: 'k'.repeat(250), value: 'v'.repeat(6000) }] })).status).toBe(200)
    expect((await log({ tags: [{ key: 'long', value: 'v'.repeat(5000) }] })).status).toBe(200)
  })

  test.each([
    ['1001 metrics', { metrics: list(1001, metric) }],
    ['101 params', { params: list(101, pair) }],
    ['101 tags', { tags: list(101, pair) }],
    ['1001 in all', { metrics: list(901, metric), params: list(100, pair) }],
    ['a param of 6001', { params: [{ key: 'k', value: 'v'.repeat(6001) }] }],
    ['a tag of 5001', { tags: [{ key: 'k', value: 'v'.repeat(5001) }] }],
    ['a key of 251', { tags: [{ key: 'k'.repeat(251), value: 'v' }] }],
    ['a key with a bad character', { metrics: [{ ...metric(1), key: 'a$b' }] }],
    ['a key that leads out', { metrics: [{ ...metric(1), key: '../a' }] }],
    ['a key that is no clean path', { metrics: [{ ...metric(1), key: 'a//b' }] }],
    ['no timestamp', { metrics: [{ key: 'a', value: 1 }] }],
    ['a value that is no number', { metrics: [{ ...metric(1), value: 'high' }] }],
    ['one parameter twice', { params: [pair(1), { key: 'k1', value: 'other' }] }],
    ['more than 1 MB', { note: 'x'.repeat(1_000_001) }],
    ['a character that cannot be stored', { tags: [{ key: 'k', value: 'a\0b' }] }],
  ])('400 INVALID_PARAMETER_VALUE for %s, and nothing of it is kept', async (_what, batch) => {
    const reply = await log({ ...batch, ...('metrics' in batch ? {} : { metrics: [metric(7)] }) })
    expect([reply.status, reply.body.error_code]).toEqual([400, 'INVALID_PARAMETER_VALUE'])
    const { data } = (await ours.get('/mlflow/runs/get', { run_id: runId })).body.run
    expect([data.metrics, data.params]).toEqual([[], []])
  })

  test('NaN and the infinities come back as the texts of the protocol', async () => {
    await log({ metrics: ['NaN', 'Infinity', '-Infinity'].map((value, i) => ({ ...metric(i), value })) })
    const { metrics } = (await ours.get('/mlflow/runs/get', { run_id: runId })).body.run.data
    expect(metrics.map((m: { value: unknown }) => m.value)).toEqual(['NaN', 'Infinity', '-Infinity'])
  })

  test('many at once on one run lose nothing and keep the last value', async () => {
    await Promise.all(
      list(20, (worker) =>
        log({ metrics: list(50, (i) => ({ ...metric(0), step: worker * 50 + i, value: worker * 50 + i })) }),
      ),
    )
    const history = await ours.get('/mlflow/metrics/get-history', { run_id: runId, metric_key: 'm0' })
    expect(history.body.metrics).toHaveLength(1000)
    const { metrics } = (await ours.get('/mlflow/runs/get', { run_id: runId })).body.run.data
    expect(metrics).toMatchObject([{ key: 'm0', value: 999, step: 999 }])
  })
})

describe('GET /tracker/api/2.0/mlflow/metrics/get-history', () => {
  test('200 by pages to the end; 400 for a page size of none', async () => {
    const metrics = Array.from({ length: 900 }, (_, step) => ({ key: 'm', value: step, timestamp: 1, step }))
    await ours.post('/mlflow/runs/log-batch', { run_id: runId, metrics })
    const steps: number[] = []
    let token = ''
    do {
      const query = { run_id: runId, metric_key: 'm', max_results: '400', ...(token ? { page_token: token } : {}) }
      const { body } = await ours.get('/mlflow/metrics/get-history', query)
      steps.push(...body.metrics.map((m: { step: number }) => m.step))
      token = body.next_page_token ?? ''
    } while (token)
    expect(steps).toEqual(metrics.map((m) => m.step))
    const none = await ours.get('/mlflow/metrics/get-history', { run_id: runId, metric_key: 'm', max_results: '0' })
    expect(none.body.error_code).toBe('INVALID_PARAMETER_VALUE')
  })

  test('bulk-interval samples several runs, with an interval of steps if asked', async () => {
    const metrics = Array.from({ length: 900 }, (_, step) => ({ key: 'm', value: step, timestamp: 1, step }))
    await ours.post('/mlflow/runs/log-batch', { run_id: runId, metrics })
    const ask = (query: object) =>
      ours.get('/mlflow/metrics/get-history-bulk-interval', { run_ids: runId, metric_key: 'm', ...query })
    const sampled = (await ask({ max_results: '20' })).body.metrics
    expect(sampled).toHaveLength(20)
    expect([sampled[0].step, sampled.at(-1).step, sampled[0].run_id]).toEqual([0, 899, runId])
    const part = (await ask({ start_step: '100', end_step: '104' })).body.metrics
    expect(part.map((m: { step: number }) => m.step)).toEqual([100, 101, 102, 103, 104])
    for (const refused of [{ start_step: '5' }, { max_results: '0' }, { max_results: '2501' }]) {
      expect((await ask(refused)).body.error_code).toBe('INVALID_PARAMETER_VALUE')
    }
  })

  test('a long curve that only falls has as many points as asked', async () => {
    for (let from = 0; from < 20_000; from += 1000) {
      const metrics = Array.from({ length: 1000 }, (_, i) => ({
        key: 'm',
        value: -(from + i),
        timestamp: 1,
        step: from + i,
      }))
      await ours.post('/mlflow/runs/log-batch', { run_id: runId, metrics })
    }
    const query = { run_ids: runId, metric_key: 'm', max_results: '200' }
    const { metrics } = (await ours.get('/mlflow/metrics/get-history-bulk-interval', query)).body
    expect([metrics.length, metrics[0].step, metrics.at(-1).step]).toEqual([200, 0, 19_999])
  })
})

describe('requests that come together', () => {
  const create = async () => (await ours.post('/mlflow/runs/create', { experiment_id: '0' })).body.run.info.run_id
  const dataOf = async (run_id: string) => (await ours.get('/mlflow/runs/get', { run_id })).body.run.data
  const param = (run_id: string, key: string, value: string) =>
    ours.post('/mlflow/runs/log-parameter', { run_id, key, value })

  test('each hears its own answer, and one that is refused spoils no other', async () => {
    const [other, deleted] = [await create(), await create()]
    await ours.post('/mlflow/runs/delete', { run_id: deleted })
    await param(other, 'lr', '1')
    const replies = await Promise.all([
      param(runId, 'lr', '2'),
      param(other, 'lr', '2'),
      param(deleted, 'lr', '2'),
      param('f'.repeat(32), 'lr', '2'),
      ours.post('/mlflow/runs/set-tag', { run_id: runId, key: 'broken', value: 'a\0b' }),
      ours.post('/mlflow/runs/log-batch', {
        run_id: other,
        metrics: [{ key: 'm', value: 1, timestamp: 1 }],
        params: [{ key: 'lr', value: '3' }],
      }),
      ours.post('/mlflow/runs/log-metric', { run_id: other, key: 'kept', value: 1, timestamp: 1 }),
    ])
    expect(replies.map(({ status, body }) => [status, body.error_code])).toEqual([
      [200, undefined],
      [400, 'INVALID_PARAMETER_VALUE'],
      [400, 'INVALID_PARAMETER_VALUE'],
      [404, 'RESOURCE_DOES_NOT_EXIST'],
      [400, 'INVALID_PARAMETER_VALUE'],
      [400, 'INVALID_PARAMETER_VALUE'],
      [200, undefined],
    ])
    expect(replies[1]!.body.message).toMatch(/key='lr' was already logged with value='1'.*new value '2'/)
    expect((await dataOf(runId)).params).toEqual([{ key: 'lr', value: '2' }])
    const { metrics } = await dataOf(other)
    expect(metrics.map((metric: { key: string }) => metric.key)).toEqual(['kept'])
  })

  test('of many values for one parameter one is kept; of many for one tag the run has one, and its name is that', async () => {
    const values = Array.from({ length: 12 }, (_, i) => `v${i}`)
    const replies = await Promise.all(values.map((value) => param(runId, 'race', value)))
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(1)
    const tag = (value: string) => ours.post('/mlflow/runs/set-tag', { run_id: runId, key: 'mlflow.runName', value })
    const tagged = await Promise.all(values.map(tag))
    expect(tagged.map(({ status }) => status)).toEqual(values.map(() => 200))
    const { run } = (await ours.get('/mlflow/runs/get', { run_id: runId })).body
    const name = run.data.tags.find((label: { key: string }) => label.key === 'mlflow.runName').value
    expect(values).toContain(name)
    expect(run.info.run_name).toBe(name)
  })

  test('runs that are opened together differ, and one in no experiment is refused alone', async () => {
    const open = (experiment_id: string) =>
      ours.post('/mlflow/runs/create', { experiment_id, run_name: 'together', tags: [{ key: 'a', value: '1' }] })
    const replies = await Promise.all(['0', '999', '0', '0'].map(open))
    expect(replies.map(({ status }) => status)).toEqual([200, 404, 200, 200])
    const ids = replies.flatMap(({ body }) => (body.run ? [body.run.info.run_id] : []))
    expect(new Set(ids).size).toBe(3)
    for (const id of ids) {
      expect((await dataOf(id)).tags).toEqual([
        { key: 'a', value: '1' },
        { key: 'mlflow.runName', value: 'together' },
      ])
    }
  })
})
