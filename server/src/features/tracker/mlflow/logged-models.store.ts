import { sql } from 'kysely'
import {
  allOf,
  type Comparison,
  compare,
  compareLabel,
  type OrderTerm,
  orderBy,
  type Page,
} from '../../../platform/db/filter-sql.ts'
import type { Tx } from '../../../platform/db/transaction.ts'
import { type FilterGrammar, numericOperators, textOperators } from './filter.ts'
import type { LinkedMetric } from './linked-metrics.ts'
import type { Search } from './search.ts'

export interface LoggedModelMetric {
  key: string
  value: number | string
  timestamp: number
  step: number
  model_id: string
  run_id: string
  dataset_name?: string
  dataset_digest?: string
}

export interface LoggedModelRow {
  modelId: string
  experimentId: number
  name: string
  sourceRunId: string | null
  modelType: string
  status: string
  params: Record<string, string>
  tags: Record<string, string>
  createdMs: number
  updatedMs: number
  metrics: LoggedModelMetric[]
}

export interface NewLoggedModel extends Omit<LoggedModelRow, 'metrics' | 'updatedMs' | 'status'> {}

const columns = sql`
  l.model_id, l.experiment_id, l.name, replace(l.source_run_id::text, '-', '') as source_run_id, l.model_type, l.status,
  l.params, l.tags, l.created_ms, l.updated_ms, coalesce((
    select json_agg(json_strip_nulls(json_build_object('key', m.key, 'value', m.value, 'timestamp', m.at_ms,
      'step', m.step, 'model_id', m.model_id, 'run_id', replace(m.run_id::text, '-', ''),
      'dataset_name', nullif(m.dataset_name, ''), 'dataset_digest', nullif(m.dataset_digest, ''))) order by m.key)
    from tracker_logged_model_metrics m where m.tenant_id = l.tenant_id and m.model_id = l.model_id
  ), '[]') as metrics`

export async function insertLoggedModel(tx: Tx, tenantId: string, model: NewLoggedModel): Promise<void> {
  const { params, tags, ...plain } = model
  const documents = { params: JSON.stringify(params), tags: JSON.stringify(tags) }
  await tx
    .insertInto('trackerLoggedModels')
    .values({ tenantId, ...plain, ...documents, updatedMs: model.createdMs })
    .execute()
}

/** Those that are not deleted. */
export async function findLoggedModels(tx: Tx, tenantId: string, modelIds: string[]): Promise<LoggedModelRow[]> {
  const result = await sql<LoggedModelRow>`
    select ${columns} from tracker_logged_models l
    where l.tenant_id = ${tenantId} and l.model_id = any(${modelIds}::text[]) and l.lifecycle_stage = 'active'
    `.execute(tx)
  return result.rows
}

export interface LoggedModelChange {
  status?: string
  lifecycleStage?: 'deleted'
  /** Added to those that are there. */
  tags?: Record<string, string>
  params?: Record<string, string>
  removedTag?: string
}

export async function updateLoggedModel(
  tx: Tx,
  tenantId: string,
  modelId: string,
  change: LoggedModelChange,
  atMs: number,
): Promise<void> {
  const { status, lifecycleStage, tags = {}, params = {}, removedTag } = change
  await sql`
    update tracker_logged_models set updated_ms = ${atMs},
      status = coalesce(${status ?? null}, status), lifecycle_stage = coalesce(${lifecycleStage ?? null}, lifecycle_stage),
      tags = (tags || ${JSON.stringify(tags)}::jsonb) - ${removedTag ?? ''}::text,
      params = params || ${JSON.stringify(params)}::jsonb
    where tenant_id = ${tenantId} and model_id = ${modelId}`.execute(tx)
}

/** The newest value per model, run, key and data set. */
export async function upsertModelMetrics(
  tx: Tx,
  tenantId: string,
  runId: string,
  metrics: (LinkedMetric & { modelId: string })[],
): Promise<void> {
  const list = <K extends keyof LinkedMetric>(key: K) => metrics.map((metric) => metric[key])
  await sql`
    insert into tracker_logged_model_metrics as m
      (model_id, tenant_id, run_id, key, dataset_name, dataset_digest, step, at_ms, value)
    select distinct on (model_id, key, dataset_name, dataset_digest) model_id, ${tenantId}::uuid, ${runId}::uuid, key,
      dataset_name, dataset_digest, step, at_ms, value
    from unnest(${list('modelId')}::text[], ${list('key')}::text[], ${list('datasetName')}::text[],
      ${list('datasetDigest')}::text[], ${list('step')}::bigint[], ${list('timestampMs')}::bigint[],
      ${list('value')}::float8[]) as g(model_id, key, dataset_name, dataset_digest, step, at_ms, value)
    order by model_id, key, dataset_name, dataset_digest, step desc, at_ms desc, value desc
    on conflict (model_id, run_id, key, dataset_name, dataset_digest) do update
      set step = excluded.step, at_ms = excluded.at_ms, value = excluded.value
      where (excluded.step, excluded.at_ms, excluded.value) > (m.step, m.at_ms, m.value)`.execute(tx)
}

const times = ['creation_time', 'creation_timestamp', 'last_updated_timestamp', 'last_updated_time'] as const
const texts = ['name', 'model_id', 'model_type', 'status', 'source_run_id', 'experiment_id'] as const
const textual = [...textOperators, 'IN', 'NOT IN'] as const
const labelled = [...textOperators, 'IS NULL', 'IS NOT NULL'] as const

export const loggedModelGrammar: FilterGrammar = {
  aliases: {
    '': 'attribute',
    attribute: 'attribute',
    attributes: 'attribute',
    metric: 'metric',
    metrics: 'metric',
    param: 'param',
    params: 'param',
    tag: 'tag',
    tags: 'tag',
  },
  entities: {
    attribute: { keys: [...texts, ...times], numeric: times, operators: textual },
    metric: { numeric: true, operators: numericOperators },
    param: { operators: labelled },
    tag: { operators: labelled },
  },
}

const attributes: Record<string, ReturnType<typeof sql>> = {
  name: sql`l.name`,
  model_id: sql`l.model_id`,
  model_type: sql`l.model_type`,
  status: sql`replace(l.status, 'LOGGED_MODEL_', '')`,
  source_run_id: sql`replace(l.source_run_id::text, '-', '')`,
  experiment_id: sql`l.experiment_id::text`,
  creation_time: sql`l.created_ms`,
  creation_timestamp: sql`l.created_ms`,
  last_updated_timestamp: sql`l.updated_ms`,
  last_updated_time: sql`l.updated_ms`,
}

/** A data set that metrics of a filter or an order were measured on. */
export interface MeasuredOn {
  name: string
  /** Null for any. */
  digest: string | null
}

export interface LoggedModelSearch extends Omit<Search, 'orders' | 'lifecycles'> {
  experimentIds: number[]
  datasets: MeasuredOn[]
  orders: { entity: string; key: string; descending: boolean; dataset: MeasuredOn | null }[]
}

export async function searchLoggedModels(
  tx: Tx,
  tenantId: string,
  search: LoggedModelSearch,
): Promise<Page<LoggedModelRow>> {
  const { comparisons, orders, offset, limit, experimentIds, datasets } = search
  const wanted = comparisons.map((comparison) => condition(comparison, datasets))
  // Data sets without a metric in the filter ask for models measured on them at all.
  if (datasets.length && !comparisons.some(({ entity }) => entity === 'metric'))
    wanted.push(measured(datasets, sql`true`))
  const result = await sql<LoggedModelRow>`
    select ${columns} from tracker_logged_models l
    where l.tenant_id = ${tenantId} and l.experiment_id = any(${experimentIds}::bigint[])
      and l.lifecycle_stage = 'active' and ${allOf(wanted)}
    order by ${orderBy([
      ...orders.map(orderTerm),
      { column: sql`l.created_ms`, descending: true },
      { column: sql`l.model_id`, descending: false },
    ])}
    limit ${limit + 1} offset ${offset}`.execute(tx)
  return { items: result.rows.slice(0, limit), more: result.rows.length > limit }
}

function condition(comparison: Comparison, datasets: MeasuredOn[]) {
  if (comparison.entity === 'attribute') return compare(attributes[comparison.key]!, comparison)
  if (comparison.entity === 'tag') return compareLabel(sql`l.tags`, comparison)
  if (comparison.entity === 'param') return compareLabel(sql`l.params`, comparison)
  const value = compare(sql`m.value`, comparison)
  return measured(datasets, sql`m.key = ${comparison.key} and ${value} and m.value <> 'NaN'`)
}

const measured = (datasets: MeasuredOn[], that: ReturnType<typeof sql>) => sql`exists (
  select from tracker_logged_model_metrics m
  where m.tenant_id = l.tenant_id and m.model_id = l.model_id and ${that} and ${anyOf(datasets)})`

const anyOf = (datasets: MeasuredOn[]) =>
  datasets.length === 0
    ? sql`true`
    : sql`(${sql.join(
        datasets.map(
          ({ name, digest }) =>
            sql`m.dataset_name = ${name} and ${digest === null ? sql`true` : sql`m.dataset_digest = ${digest}`}`,
        ),
        sql` or `,
      )})`

function orderTerm({ entity, key, descending, dataset }: LoggedModelSearch['orders'][number]): OrderTerm {
  if (entity === 'attribute') return { column: attributes[key]!, descending }
  const column = sql`(
    select m.value from tracker_logged_model_metrics m
    where m.tenant_id = l.tenant_id and m.model_id = l.model_id and m.key = ${key}
      and ${anyOf(dataset ? [dataset] : [])}
    order by m.at_ms desc, m.step desc limit 1)`
  return { column, descending, maybeNaN: true }
}
