import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { runIdOf } from './runs.store.ts'

export interface KeyValue {
  key: string
  value: string
}

export interface LastMetric {
  key: string
  /** NaN and the infinities are the texts `NaN`, `Infinity` and `-Infinity`, as JSON has no numbers for them. */
  value: number | string
  timestamp: number
  step: number
}

/** What runs logged, with the last value per metric key: never a look at the points. */
export interface RunData {
  metrics: LastMetric[]
  params: KeyValue[]
  tags: KeyValue[]
  /** Data sets, logged models put in and logged models that came out, as the protocol writes them. */
  datasets: object[]
  modelInputs: { model_id: string }[]
  modelOutputs: { model_id: string; step: number }[]
}

/** For many runs in one round trip, by run id. */
export async function findRunData(tx: Tx, tenantId: string, runIds: string[]): Promise<Map<string, RunData>> {
  if (runIds.length === 0) return new Map()
  const result = await sql<RunDataColumns>`
    select * from tracker_run_data(${tenantId}, ${runIds}::uuid[])`.execute(tx)
  return new Map(result.rows.map((row) => [runIdOf(row.runId), runDataOf(row)]))
}

type Column<T> = T[] | null

/** Keys and values come apart; null where there are none. */
interface RunDataColumns {
  runId: string
  metricKeys: Column<string>
  metricValues: Column<number | string>
  metricTimes: Column<number>
  metricSteps: Column<number>
  paramKeys: Column<string>
  paramValues: Column<string>
  tagKeys: Column<string>
  tagValues: Column<string>
  datasets: Column<object>
  modelInputs: Column<{ model_id: string }>
  modelOutputs: Column<{ model_id: string; step: number }>
}

function runDataOf(row: RunDataColumns): RunData {
  const metrics = (row.metricKeys ?? []).map((key, place) => ({
    key,
    value: row.metricValues![place]!,
    timestamp: row.metricTimes![place]!,
    step: row.metricSteps![place]!,
  }))
  return {
    metrics,
    params: labels(row.paramKeys, row.paramValues),
    tags: labels(row.tagKeys, row.tagValues),
    datasets: row.datasets ?? [],
    modelInputs: row.modelInputs ?? [],
    modelOutputs: row.modelOutputs ?? [],
  }
}

const labels = (keys: Column<string>, values: Column<string>): KeyValue[] =>
  (keys ?? []).map((key, place) => ({ key, value: values![place]! }))
