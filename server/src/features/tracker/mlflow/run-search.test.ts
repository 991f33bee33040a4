import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestPlatform } from '../../../../test/harness.ts'
import { type TrackingClient, trackingClient } from './tracking-client.testing.ts'

let platform: TestPlatform
let client: TrackingClient
let experiment: string
beforeAll(async () => {
  platform = await startTestPlatform()
  await platform.tenant('ours')
  client = await trackingClient(platform, await platform.member('ours', 'DEVELOPER'))
  experiment = (await client.post('/mlflow/experiments/create', { name: 'searched' })).body.experiment_id
  const values = [0.1, 0.9, null, 'NaN', 0.5, 0.9]
  for (const [i, value] of values.entries()) {
    const run = { experiment_id: experiment, run_name: `run-${i}`, start_time: 1000 + i }
    const run_id = (await client.post('/mlflow/runs/create', run)).body.run.info.run_id
    const metrics = value === null ? [] : [{ key: 'acc', value, timestamp: 1, step: 0 }]
    const params = [{ key: 'size', value: i % 2 ? 'large' : 'small' }]
    // Two of them differ only where the index of parameters sees nothing any more.
    if (i > 2) params.push({ key: 'note', value: 'x'.repeat(120) + (i === 4 ? 'a' : 'b') })
    await client.post('/mlflow/runs/log-batch', { run_id, metrics, params })
  }
})
afterAll(() => platform?.stop())

async function names(search: object): Promise<string[]> {
  const { body } = await client.post('/mlflow/runs/search', { experiment_ids: [experiment], ...search })
  return body.runs.map((run: { info: { run_name: string } }) => run.info.run_name)
}

describe('POST /tracker/api/2.0/mlflow/runs/search', () => {
  test('ordered by a metric: NaN after every number, what lacks it last, equals by the newest start', async () => {
    expect(await names({ order_by: ['metrics.acc DESC'] })).toEqual([
      'run-5',
      'run-1',
      'run-4',
      'run-0',
      'run-3',
      'run-2',
    ])
    expect(await names({ order_by: ['metrics.acc ASC'] })).toEqual([
      'run-0',
      'run-4',
      'run-5',
      'run-1',
      'run-3',
      'run-2',
    ])
  })

  const listings = [
    { order: 'metrics.acc DESC', whole: ['run-5', 'run-1', 'run-4', 'run-0', 'run-3', 'run-2'] },
    { order: 'params.size ASC', whole: ['run-5', 'run-3', 'run-1', 'run-4', 'run-2', 'run-0'] },
    { order: 'params.note ASC', whole: ['run-4', 'run-5', 'run-3', 'run-2', 'run-1', 'run-0'] },
    { order: 'tags.`mlflow.runName` DESC', whole: ['run-5', 'run-4', 'run-3', 'run-2', 'run-1', 'run-0'] },
  ]
  const pages = listings.flatMap((listing) => [1, 2, 4, 5].map((size) => ({ ...listing, size })))
  test.each(pages)('by $order, pages of $size are the whole list, each run once', async ({ order, whole, size }) => {
    const found: string[] = []
    let page_token = ''
    do {
      const search = { experiment_ids: [experiment], order_by: [order], max_results: size, page_token }
      const { body } = await client.post('/mlflow/runs/search', search)
      found.push(...body.runs.map((run: { info: { run_name: string } }) => run.info.run_name))
      page_token = body.next_page_token ?? ''
    } while (page_token)
    expect(found).toEqual(whole)
  })

  test('the newest first without an order; a filter by parameter and metric together', async () => {
    expect((await names({}))[0]).toBe('run-5')
    expect(await names({ filter: "params.size = 'large' AND metrics.acc >= 0.9", order_by: ['metrics.acc'] })).toEqual([
      'run-5',
      'run-1',
    ])
    expect(await names({ filter: "params.size != 'large'", order_by: ['metrics.acc DESC'] })).toEqual([
      'run-4',
      'run-0',
      'run-2',
    ])
  })

  test('400 for a page token of somebody’s own making', async () => {
    const reply = await client.post('/mlflow/runs/search', { experiment_ids: [experiment], page_token: 'x' })
    expect(reply.body.error_code).toBe('INVALID_PARAMETER_VALUE')
  })
})
