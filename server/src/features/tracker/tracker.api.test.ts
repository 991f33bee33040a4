import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestPlatform } from '../../../test/harness.ts'
import { type Tx, transaction } from '../../platform/db/transaction.ts'
import { findHistory } from './metrics.store.ts'
import * as tracker from './tracker.api.ts'

let platform: TestPlatform
let ctx: tracker.TrackerCtx
let runId: string
beforeAll(async () => {
  platform = await startTestPlatform()
  const tenant = await platform.tenant('tracked')
  const actor = { userId: platform.admin.userId, email: 'a@b.c', fullName: null, isSuperuser: true, sessionId: null }
  ctx = { tenant, actor, clock: platform.services.clock }
})
afterAll(() => platform?.stop())
const work = <T>(change: (tx: Tx) => Promise<T>) =>
  transaction(platform.services.db, { tenantId: ctx.tenant.id }, change)
beforeEach(async () => {
  const run = { experimentName: 'flowers', runName: 'first', tags: { a: '1' }, params: { lr: '0.1' } }
  runId = (await work((tx) => tracker.createTrackerRun(tx, ctx, run))).runId
})

const series = async (maxPoints: number, keys: string[] | null = null) =>
  (await work((tx) => tracker.readMetricSeries(tx, ctx, runId, { keys, maxPoints }))).series
const point = (step: number, value: number, key = 'loss') => ({ key, step, value, timestampMs: 1_000 + step })

describe('readMetricSeries', () => {
  test('NaN and the infinities survive', async () => {
    const values = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0.1]
    await work((tx) =>
      tracker.logTrackerMetrics(
        tx,
        ctx,
        runId,
        values.map((value, step) => point(step, value)),
      ),
    )
    expect((await series(10))[0]!.points.map((p) => p.value)).toEqual(values)
  })

  test('the same points sent again count once, at any time of packing', async () => {
    for (let from = 0; from < 3000; from += 250) {
      const batch = Array.from({ length: 250 }, (_, i) => point(from + i, i))
      await work((tx) => tracker.logTrackerMetrics(tx, ctx, runId, batch))
      await work((tx) => tracker.logTrackerMetrics(tx, ctx, runId, batch))
    }
    const [whole] = await series(5000)
    expect(whole).toMatchObject({ key: 'loss', total: 3000, downsampled: false })
    expect(whole!.points.map((p) => p.step)).toEqual(Array.from({ length: 3000 }, (_, i) => i))
  })

  test('a long curve keeps its ends and its extremes, however it was packed', async () => {
    const total = 60_000
    for (let from = 0; from < total; from += 20_000) {
      const batch = Array.from({ length: 20_000 }, (_, i) => point(from + i, Math.sin((from + i) / 500)))
      if (from === 20_000) {
        batch[77]!.value = 99
        batch[1234]!.value = -99
      }
      await work((tx) => tracker.logTrackerMetrics(tx, ctx, runId, batch))
    }
    const [curve] = await series(100)
    expect(curve).toMatchObject({ total, downsampled: true })
    expect(curve!.points.length).toBeLessThanOrEqual(100)
    expect(curve!.points.length).toBeGreaterThan(80)
    const values = curve!.points.map((p) => p.value)
    expect([Math.max(...values), Math.min(...values)]).toEqual([99, -99])
    expect([curve!.points[0]!.step, curve!.points.at(-1)!.step]).toEqual([0, total - 1])
    const steps = curve!.points.map((p) => p.step)
    expect(steps).toEqual([...steps].sort((a, b) => a - b))
  })

  test('points that come out of order are shown by step; unknown keys give nothing', async () => {
    await work((tx) => tracker.logTrackerMetrics(tx, ctx, runId, [point(5, 5), point(1, 1), point(3, 3)]))
    expect((await series(10, ['loss', 'none'])).map((s) => s.points.map((p) => p.step))).toEqual([[1, 3, 5]])
  })
})

describe('findHistory', () => {
  test('pages give every point once, over chunks and loose points', async () => {
    const batch = Array.from({ length: 5000 }, (_, step) => point(step, step))
    await work((tx) => tracker.logTrackerMetrics(tx, ctx, runId, batch))
    const steps: number[] = []
    for (let offset = 0, more = true; more; offset += 700) {
      const page = await work((tx) => findHistory(tx, ctx.tenant.id, runId, 'loss', { offset, limit: 700 }))
      steps.push(...page.points.map((p) => p.step))
      more = page.more
    }
    expect(steps).toEqual(batch.map((p) => p.step))
  })
})

describe('logTrackerParams', () => {
  test('the same value again is no change, another one is a conflict', async () => {
    await work((tx) => tracker.logTrackerParams(tx, ctx, runId, { lr: '0.1', seed: '7' }))
    await expect(work((tx) => tracker.logTrackerParams(tx, ctx, runId, { lr: '0.2' }))).rejects.toMatchObject({
      code: 'conflict',
      detail: { key: 'lr', held: '0.1', given: '0.2' },
    })
  })

  test('two writers at once: one of two values wins and the other hears of it', async () => {
    const results = await Promise.allSettled(
      Array.from({ length: 8 }, (_, i) => work((tx) => tracker.logTrackerParams(tx, ctx, runId, { race: String(i) }))),
    )
    expect(results.filter((result) => result.status === 'fulfilled')).toHaveLength(1)
  })
})

describe('createTrackerRun', () => {
  test('many at once in one new experiment make that experiment once', async () => {
    const run = { experimentName: 'crowd', runName: 'r', tags: {}, params: {} }
    const runs = await Promise.all(
      Array.from({ length: 8 }, () => work((tx) => tracker.createTrackerRun(tx, ctx, run))),
    )
    expect(new Set(runs.map((made) => made.experimentId)).size).toBe(1)
  })
})

describe('deleteTrackerRun', () => {
  test('nothing of the run is left, its loose points and files included', async () => {
    await work(async (tx) => {
      await tracker.logTrackerMetrics(
        tx,
        ctx,
        runId,
        Array.from({ length: 2000 }, (_, i) => point(i, i)),
      )
      await tracker.putRunArtifacts(tx, ctx, runId, [{ path: 'a/b', digest: 'sha256:0', size: 1 }])
      await tracker.deleteTrackerRun(tx, ctx, runId)
      for (const table of ['trackerMetricPoints', 'trackerMetricChunks'] as const) {
        const series = tx.selectFrom('trackerMetrics').select('seriesId')
        const left = await tx.selectFrom(table).select('seriesId').where('seriesId', 'not in', series).execute()
        expect(left, table).toEqual([])
      }
      expect(await tx.selectFrom('trackerArtifacts').select('path').execute()).toEqual([])
      await expect(tracker.getTrackerRun(tx, ctx, runId)).rejects.toMatchObject({ code: 'not_found' })
    })
  })
})
