import { type RawBuilder, sql } from 'kysely'
import {
  allOf,
  type Comparison,
  compare,
  type Order,
  type OrderTerm,
  orderBy,
  type Page,
} from '../../../platform/db/filter-sql.ts'
import type { Tx } from '../../../platform/db/transaction.ts'
import { artifactLocation, runColumns, type TrackerRunRow } from '../runs.store.ts'
import { type FilterGrammar, numericOperators, textOperators } from './filter.ts'
import type { Search } from './search.ts'

type Sql = RawBuilder<unknown>

const names = (entity: string, ...aliases: string[]) => Object.fromEntries([entity, ...aliases].map((n) => [n, entity]))
const textual = [...textOperators, 'IN', 'NOT IN'] as const
const labelled = [...textOperators, 'IS NULL', 'IS NOT NULL'] as const
const times = ['start_time', 'end_time'] as const
const texts = ['run_id', 'run_name', 'status', 'user_id', 'artifact_uri', 'experiment_id', 'lifecycle_stage'] as const

/** @source contract B10.7 */
export const runGrammar: FilterGrammar = {
  aliases: {
    '': 'attribute',
    ...names('attribute', 'attributes', 'attr', 'run'),
    ...names('metric', 'metrics'),
    ...names('param', 'params', 'parameter', 'parameters'),
    ...names('tag', 'tags'),
    ...names('dataset', 'datasets'),
  },
  keyAliases: {
    created: 'start_time',
    Created: 'start_time',
    'run name': 'run_name',
    'Run name': 'run_name',
    'Run Name': 'run_name',
  },
  entities: {
    attribute: { keys: [...texts, ...times], numeric: times, operators: textual },
    metric: { numeric: true, operators: numericOperators },
    param: { operators: labelled },
    tag: { operators: labelled },
    dataset: { keys: ['name', 'digest', 'context'], operators: textual },
  },
}

/** `artifactRoot` is the address that paths of artifacts begin with. */
export interface RunSearch extends Search {
  experimentIds: number[]
  artifactRoot: string
}

/** Runs of some experiments; reads summaries only, never a metric's points. */
export async function searchRuns(tx: Tx, tenantId: string, search: RunSearch): Promise<Page<TrackerRunRow>> {
  const { limit, orders } = search
  if (orders[0] && isLogged(orders[0])) {
    // Runs that have the key come first, and an index has them in order: mostly they are all that is asked for.
    const rows = await findRuns(tx, tenantId, search, true)
    if (rows.length > limit) return { items: rows.slice(0, limit), more: true }
  }
  // Sorting a hundred thousand runs takes more memory than a query gets by itself.
  await sql`set local work_mem = '64MB'`.execute(tx)
  const rows = await findRuns(tx, tenantId, search, false)
  return { items: rows.slice(0, limit), more: rows.length > limit }
}

const isLogged = ({ entity }: Order) => entity === 'metric' || entity === 'param' || entity === 'tag'

/** `ordered` leaves out the runs that lack the key of the first order. */
async function findRuns(tx: Tx, tenantId: string, search: RunSearch, ordered: boolean): Promise<TrackerRunRow[]> {
  const { comparisons, orders, lifecycles, offset, limit, experimentIds } = search
  const columns = attributeColumns(search.artifactRoot)
  const ordering = orders.map((order, place) => orderTerm(tenantId, order, place, columns, ordered && place === 0))
  const result = await sql<TrackerRunRow>`
    select ${runColumns} from tracker_runs r ${sql.join([sql``, ...ordering.flatMap(({ join }) => join)], sql` `)}
    where r.tenant_id = ${tenantId} and ${inExperiments(experimentIds)}
      and r.lifecycle_stage = any(${lifecycles}::text[])
      and ${allOf(comparisons.map((comparison) => condition(tenantId, comparison, columns)))}
    order by ${orderBy([
      ...ordering.flatMap(({ terms }) => terms),
      { column: sql`r.start_ms`, descending: true },
      { column: sql`r.run_id`, descending: false },
    ])}
    limit ${limit + 1} offset ${offset}`.execute(tx)
  return result.rows
}

/** Of one experiment an index has the newest runs first; of several it has no such order. */
const inExperiments = (ids: number[]): Sql =>
  ids.length === 1 ? sql`r.experiment_id = ${ids[0]}` : sql`r.experiment_id = any(${ids}::bigint[])`

const attributeColumns = (artifactRoot: string): Record<string, Sql> => ({
  run_id: sql`replace(r.run_id::text, '-', '')`,
  run_name: sql`r.name`,
  status: sql`r.status`,
  user_id: sql`r.user_name`,
  experiment_id: sql`r.experiment_id::text`,
  lifecycle_stage: sql`r.lifecycle_stage`,
  artifact_uri: sql`coalesce(${artifactLocation} || '/' || replace(r.run_id::text, '-', '') || '/artifacts',
    ${artifactRoot}::text || '/' || r.experiment_id || '/' || replace(r.run_id::text, '-', '') || '/artifacts')`,
  start_time: sql`r.start_ms`,
  end_time: sql`r.end_ms`,
})

function condition(tenantId: string, comparison: Comparison, columns: Record<string, Sql>): Sql {
  const { entity, key, operator, value } = comparison
  if (entity === 'attribute') return compare(columns[key]!, comparison)
  if (entity === 'dataset') return datasetCondition(tenantId, comparison)
  if (entity === 'metric') {
    // PostgreSQL holds NaN to be greater than every number; a filter never means it.
    const above = operator === '>' || operator === '>=' ? sql`and m.value <> 'NaN'` : sql``
    return sql`exists (
      select from tracker_metrics m where m.tenant_id = ${tenantId} and m.run_id = r.run_id and m.key = ${key}
        and ${compare(sql`m.value`, comparison)} ${above})`
  }
  const table = entity === 'param' ? sql`tracker_params` : sql`tracker_tags`
  // The index holds the beginning of each value.
  const indexed = operator === '=' ? sql`and left(l.value, 100) = left(${value}::text, 100)` : sql``
  const absent = operator === 'IS NULL' || operator === 'IS NOT NULL'
  const found = sql`exists (
    select from ${table} l where l.tenant_id = ${tenantId} and l.run_id = r.run_id and l.key = ${key}
      ${absent ? sql`` : sql`and ${compare(sql`l.value`, comparison)} ${indexed}`})`
  return operator === 'IS NULL' ? sql`not ${found}` : found
}

function datasetCondition(tenantId: string, comparison: Comparison): Sql {
  const column =
    comparison.key === 'context' ? sql`(rd.tags ->> 'mlflow.data.context')` : sql`d.${sql.ref(comparison.key)}`
  return sql`exists (
    select from tracker_run_datasets rd join tracker_datasets d on d.id = rd.dataset_id
    where rd.tenant_id = ${tenantId} and rd.run_id = r.run_id and ${compare(column, comparison)})`
}

/** What an order joins and then orders by; runs without the key come last. */
function orderTerm(
  tenantId: string,
  order: Order,
  place: number,
  columns: Record<string, Sql>,
  required: boolean,
): { join: Sql[]; terms: OrderTerm[] } {
  const { entity, key, descending } = order
  if (entity === 'attribute') return { join: [], terms: [{ column: columns[key]!, descending }] }
  if (!isLogged(order)) return { join: [], terms: [{ column: datasetColumn(key), descending }] }
  const alias = sql.ref(`o${place}`)
  const column = sql`${alias}.value`
  const table = sql.table(
    entity === 'metric' ? 'tracker_metrics' : entity === 'param' ? 'tracker_params' : 'tracker_tags',
  )
  const isNumber = required && entity === 'metric' ? sql`and ${column} <> 'NaN'` : sql``
  const join = sql`${required ? sql`join` : sql`left join`} ${table} ${alias}
    on ${alias}.tenant_id = ${tenantId} and ${alias}.run_id = r.run_id and ${alias}.key = ${key} ${isNumber}`
  const whole: OrderTerm = { column, descending, maybeNaN: entity === 'metric' && !required, neverNull: required }
  // The index of labels has them in the order of their beginnings.
  const beginning: OrderTerm = { column: sql`left(${column}, 100)`, descending, neverNull: required }
  return { join: [join], terms: entity === 'metric' ? [whole] : [beginning, whole] }
}

const datasetColumn = (key: string): Sql => sql`(
  select min(d.${sql.ref(key === 'context' ? 'name' : key)}) from tracker_run_datasets rd
  join tracker_datasets d on d.id = rd.dataset_id where rd.run_id = r.run_id)`
