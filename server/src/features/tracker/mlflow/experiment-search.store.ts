import { sql } from 'kysely'
import {
  allOf,
  type Comparison,
  compare,
  compareLabel,
  type Order,
  orderBy,
  type Page,
} from '../../../platform/db/filter-sql.ts'
import type { Tx } from '../../../platform/db/transaction.ts'
import type { ExperimentRow } from '../experiments.store.ts'
import { type FilterGrammar, textOperators } from './filter.ts'
import type { Search } from './search.ts'

const times = ['creation_time', 'last_update_time'] as const

export const experimentGrammar: FilterGrammar = {
  aliases: {
    '': 'attribute',
    attribute: 'attribute',
    attributes: 'attribute',
    attr: 'attribute',
    tag: 'tag',
    tags: 'tag',
  },
  entities: {
    attribute: { keys: ['name', ...times, 'experiment_id'], numeric: times, operators: textOperators },
    tag: { operators: [...textOperators, 'IS NULL', 'IS NOT NULL'] },
  },
}

const columns: Record<string, ReturnType<typeof sql>> = {
  name: sql`e.name`,
  experiment_id: sql`e.experiment_id`,
  creation_time: sql`e.created_ms`,
  last_update_time: sql`e.updated_ms`,
}

const condition = (comparison: Comparison) =>
  comparison.entity === 'tag'
    ? compareLabel(sql`e.tags`, comparison)
    : comparison.key === 'experiment_id'
      ? compare(sql`e.experiment_id::text`, comparison)
      : compare(columns[comparison.key]!, comparison)

export async function searchExperiments(
  tx: Tx,
  tenantId: string,
  { comparisons, orders, lifecycles, offset, limit }: Search,
): Promise<Page<ExperimentRow>> {
  const terms = orders.map(({ key, descending }: Order) => ({ column: columns[key]!, descending }))
  const result = await sql<ExperimentRow>`
    select e.experiment_id, e.name, e.artifact_location, e.lifecycle_stage, e.tags, e.created_ms, e.updated_ms
    from tracker_experiments e
    where e.tenant_id = ${tenantId} and e.lifecycle_stage = any(${lifecycles}::text[])
      and ${allOf(comparisons.map(condition))}
    order by ${orderBy([...terms, { column: sql`e.experiment_id`, descending: terms.length === 0 }])}
    limit ${limit + 1} offset ${offset}`.execute(tx)
  return { items: result.rows.slice(0, limit), more: result.rows.length > limit }
}
