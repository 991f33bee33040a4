import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

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
  const result = await sql<RunData & { runId: string }>`
    select replace(r.run_id::text, '-', '') as run_id, coalesce(m.metrics, '[]') as metrics,
      coalesce(p.params, '[]') as params, coalesce(t.tags, '[]') as tags, coalesce(d.datasets, '[]') as datasets,
      coalesce(i.models, '[]') as model_inputs, coalesce(o.models, '[]') as model_outputs
    from unnest(${runIds}::uuid[]) as r(run_id)
    left join lateral (
      select json_agg(json_build_object('key', key, 'value', value, 'timestamp', at_ms, 'step', step) order by key)
        as metrics
      from tracker_metrics where tenant_id = ${tenantId} and run_id = r.run_id
    ) m on true
    left join lateral (
      select json_agg(json_build_object('key', key, 'value', value) order by key) as params
      from tracker_params where tenant_id = ${tenantId} and run_id = r.run_id
    ) p on true
    left join lateral (
      select json_agg(json_build_object('key', key, 'value', value) order by key) as tags
      from tracker_tags where tenant_id = ${tenantId} and run_id = r.run_id
    ) t on true
    left join lateral (
      select json_agg(json_build_object(
        'tags', (select coalesce(json_agg(json_build_object('key', key, 'value', value)), '[]') from jsonb_each_text(rd.tags)),
        'dataset', json_strip_nulls(json_build_object('name', ds.name, 'digest', ds.digest, 'source_type', ds.source_type,
          'source', ds.source, 'schema', ds.schema, 'profile', ds.profile))
      ) order by ds.name, ds.digest) as datasets
      from tracker_run_datasets rd join tracker_datasets ds on ds.id = rd.dataset_id
      where rd.tenant_id = ${tenantId} and rd.run_id = r.run_id
    ) d on true
    left join lateral (
      select json_agg(json_build_object('model_id', model_id) order by model_id) as models
      from tracker_run_models where tenant_id = ${tenantId} and run_id = r.run_id and direction = 'input'
    ) i on true
    left join lateral (
      select json_agg(json_build_object('model_id', model_id, 'step', step) order by step, model_id) as models
      from tracker_run_models where tenant_id = ${tenantId} and run_id = r.run_id and direction = 'output'
    ) o on true`.execute(tx)
  return new Map(result.rows.map(({ runId, ...data }) => [runId, data]))
}
