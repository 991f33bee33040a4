import { sql } from 'kysely'
import { allOf, compare, orderBy, type Page } from '../../platform/db/filter-sql.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import type { ModelRow } from './models.store.ts'
import { compareTag, type RegistrySearch } from './registry-versions.store.ts'

/** A model with the version of each alias. */
export type AliasedModel = ModelRow & { aliases: Record<string, number> }

const columns = sql`
  m.id, m.name, m.description, m.tags, m.last_version, m.created_at, m.updated_at, coalesce((
    select jsonb_object_agg(alias, version) from model_aliases a
    where a.tenant_id = m.tenant_id and a.model_id = m.id
  ), '{}') as aliases`

export async function findAliasedModel(tx: Tx, tenantId: string, name: string): Promise<AliasedModel | null> {
  const result = await sql<AliasedModel>`
    select ${columns} from models m where m.tenant_id = ${tenantId} and lower(m.name) = lower(${name})`.execute(tx)
  return result.rows[0] ?? null
}

const modelColumns: Record<string, ReturnType<typeof sql>> = {
  name: sql`m.name`,
  creation_timestamp: sql`(extract(epoch from m.created_at) * 1000)`,
  last_updated_timestamp: sql`(extract(epoch from m.updated_at) * 1000)`,
}

export async function searchModels(tx: Tx, tenantId: string, search: RegistrySearch): Promise<Page<AliasedModel>> {
  const { comparisons, orders, offset, limit } = search
  const conditions = comparisons.map((comparison) =>
    comparison.entity === 'tag'
      ? compareTag(sql`m.tags`, comparison)
      : compare(modelColumns[comparison.key]!, comparison),
  )
  const given = orders.map(({ key, descending }) => ({ column: modelColumns[key]!, descending }))
  const result = await sql<AliasedModel>`
    select ${columns} from models m
    where m.tenant_id = ${tenantId} and ${allOf(conditions)}
    order by ${orderBy([...given, { column: sql`m.name`, descending: false }])}
    limit ${limit + 1} offset ${offset}`.execute(tx)
  return { items: result.rows.slice(0, limit), more: result.rows.length > limit }
}

export async function setAlias(
  tx: Tx,
  tenantId: string,
  modelId: string,
  alias: string,
  version: number,
): Promise<void> {
  await tx
    .insertInto('modelAliases')
    .values({ tenantId, modelId, alias, version })
    .onConflict((oc) => oc.columns(['tenantId', 'modelId', 'alias']).doUpdateSet({ version }))
    .execute()
}

export async function deleteAlias(tx: Tx, tenantId: string, modelId: string, alias: string): Promise<void> {
  await tx
    .deleteFrom('modelAliases')
    .where('tenantId', '=', tenantId)
    .where('modelId', '=', modelId)
    .where('alias', '=', alias)
    .execute()
}
