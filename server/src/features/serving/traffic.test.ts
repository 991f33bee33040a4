import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { servedImage } from '../../../test/served-image.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { endWorks } from './endpoint.fixture.ts'
import { latencyClass, latencyClassCount, latencyLimitsMs, latencyQuantileMs } from './latency-classes.ts'
import { addTraffic, compactTraffic, sumTraffic, type TrafficBucket } from './traffic.store.ts'

describe('latency classes', () => {
  test('a latency belongs to the first class whose limit it does not exceed', () => {
    expect(latencyClass(0)).toBe(0)
    for (const [at, limit] of latencyLimitsMs.entries()) {
      expect(latencyClass(limit)).toBe(at)
      expect(latencyClass(limit + 0.001)).toBe(at + 1)
    }
    expect(latencyClass(1e9)).toBe(latencyClassCount - 1)
  })

  test.each([0.5, 0.9, 0.95, 0.99])('the quantile %d of many latencies is right within a quarter', (share) => {
    const latencies = Array.from({ length: 10_000 }, (_, index) => 3 + 200 * (index / 10_000) ** 3)
    const counts = Array.from({ length: latencyClassCount }, () => 0)
    for (const latency of latencies) counts[latencyClass(latency)]! += 1
    const exact = latencies[Math.floor(share * 10_000)]!
    expect(latencyQuantileMs(counts, share)).toBeGreaterThan(exact * 0.75)
    expect(latencyQuantileMs(counts, share)).toBeLessThan(exact * 1.25)
  })

  test('of nothing there is no quantile', () => {
    expect(latencyQuantileMs([], 0.5)).toBeNull()
  })
})

describe('the history of an endpoint', () => {
  let platform: TestPlatform
  let client: TestClient
  let endpoint: { id: string; tenantId: string }
  beforeAll(async () => {
    platform = await startTestPlatform()
    client = await platform.member('default', 'MAINTAINER')
    const image = await servedImage(platform, { name: 'quiet' })
    const { body } = await client.post('/api/v1/serving/endpoints', {
      ...{ name: 'quiet', image_id: image.id, replicas: 1, gpu: 0 },
    })
    const { tenantId } = await system((tx) =>
      tx.selectFrom('servingEndpoints').select('tenantId').where('id', '=', body.id).executeTakeFirstOrThrow(),
    )
    endpoint = { id: body.id, tenantId }
  })
  afterAll(async () => {
    if (!platform) return
    await platform.instance.stop()
    await endWorks(platform)
    await platform.stop()
  })

  type Work<T> = Parameters<typeof transaction<T>>[2]
  const system = <T>(work: Work<T>): Promise<T> => transaction(platform.services.db, 'system', work)
  const bucket = (at: Date, ok: number, failed: number, latencyMs: number): TrafficBucket => {
    const latencies = Array.from({ length: latencyClassCount }, () => 0)
    latencies[latencyClass(latencyMs)] = ok + failed
    const counts = [ok, 0, 0, failed]
    return {
      tenantId: endpoint.tenantId,
      endpointId: endpoint.id,
      bucketAt: at,
      bucketSeconds: 15,
      counts,
      durationSeconds: 1,
      latencies,
    }
  }

  test('processes add to one bucket; intervals sum buckets up; compaction changes no sum', async () => {
    const day = 24 * 3600_000
    const from = new Date(Math.floor((Date.now() - 3 * day) / 300_000) * 300_000)
    const at = (seconds: number) => new Date(from.getTime() + seconds * 1000)
    await system((tx) => addTraffic(tx, [bucket(at(0), 10, 0, 1), bucket(at(15), 5, 1, 90)]))
    await system((tx) => addTraffic(tx, [bucket(at(0), 7, 3, 90), bucket(at(310), 1, 0, 1)]))
    const look = () => system((tx) => sumTraffic(tx, endpoint, from, 300_000))
    const before = await look()
    expect(before.map(({ at, counts }) => [at.getTime() - from.getTime(), counts])).toEqual([
      [0, [22, 0, 0, 4]],
      [300_000, [1, 0, 0, 0]],
    ])
    expect(before[0]!.latencies[latencyClass(1)]).toBe(10)
    expect(before[0]!.latencies[latencyClass(90)]).toBe(16)
    await system((tx) => compactTraffic(tx, at(3600), at(-3600)))
    expect(await look()).toEqual(before)
    const rows = await system((tx) => tx.selectFrom('servingTraffic').select('bucketSeconds').execute())
    expect(rows).toEqual([{ bucketSeconds: 300 }, { bucketSeconds: 300 }])
    await system((tx) => compactTraffic(tx, at(3600), at(3600)))
    expect(await look()).toEqual([])
  })

  test('200 reports an hour of it: rates, errors, percentiles, and a history without gaps', async () => {
    const now = Math.floor(Date.now() / 15_000) * 15_000
    await system((tx) =>
      addTraffic(tx, [bucket(new Date(now - 600_000), 90, 0, 8), bucket(new Date(now - 60_000), 0, 10, 800)]),
    )
    const { body } = await client.get('/api/v1/serving/endpoints/quiet/metrics?range=1h&step=5m')
    expect(body).toMatchObject({ range_seconds: 3600, step_seconds: 300, requests: 100, error_rate: 0.1, in_flight: 0 })
    expect(body.rps).toBeCloseTo(100 / 3600)
    expect(body.p50_ms).toBeLessThanOrEqual(8)
    expect(body.p99_ms).toBeGreaterThan(600)
    expect(body.history.length).toBe(12)
    expect(body.history.filter((point: { requests: number }) => point.requests === 0).length).toBe(10)
    const codes = await client.get('/api/v1/serving/endpoints/quiet/status-codes?range=5m')
    expect(codes.body).toMatchObject({ total: 10, '5xx': { count: 10, ratio: 1 }, '2xx': { count: 0, ratio: 0 } })
  })

  test.each([
    'metrics?range=1x',
    'metrics?range=91d',
    'metrics?step=0',
    'metrics?range=90d&step=15',
    'status-codes?range=0s',
  ])('422 for %s', async (query) => {
    expect((await client.get(`/api/v1/serving/endpoints/quiet/${query}`)).status).toBe(422)
  })
})
