import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { type ListQuery, likePattern, ordering } from '../../platform/http/lists.ts'
import type { Stage } from './models.stages.ts'

/** @source contract B4.3 */
export const modelSorts = { updated_at: 'time', name: 'text', versions: 'number' } as const

/** A model with how many versions it has in which stage. */
export interface ModelOverview {
  id: string
  name: string
  description: string
  tags: Record<string, string>
  createdAt: Date
  updatedAt: Date
  versions: number
  latestVersion: number | null
  stages: Partial<Record<Stage, { count: number; latest: number }>>
  aliases: Record<string, number>
}

const overview = sql`
  select m.id, m.name, m.description, m.tags, m.created_at, m.updated_at, coalesce(s.versions, 0)::int as versions,
    s.latest_version, coalesce(s.stages, '{}') as stages, coalesce(a.aliases, '{}') as aliases
  from models m
  left join lateral (
    select sum(count) as versions, max(latest) as latest_version,
      jsonb_object_agg(stage, jsonb_build_object('count', count, 'latest', latest)) as stages
    from (
      select stage, count(*) as count, max(version) as latest from model_versions v
      where v.tenant_id = m.tenant_id and v.model_id = m.id group by stage
    ) per_stage
  ) s on true
  left join lateral (
    select jsonb_object_agg(alias, version) as aliases from model_aliases a
    where a.tenant_id = m.tenant_id and a.model_id = m.id
  ) a on true`

export async function findOverview(tx: Tx, tenantId: string, name: string): Promise<ModelOverview | null> {
  const result = await sql<ModelOverview>`
    ${overview} where m.tenant_id = ${tenantId} and lower(m.name) = lower(${name})`.execute(tx)
  return result.rows[0] ?? null
}

export interface ModelListQuery extends ListQuery {
  production?: boolean
}

export async function listOverviews(
  tx: Tx,
  tenantId: string,
  query: ModelListQuery,
): Promise<{ items: ModelOverview[]; total: number }> {
  const { key, direction } = ordering(modelSorts, query)
  const order = { updated_at: sql`m.updated_at`, name: sql`lower(m.name)`, versions: sql`s.versions` }[key]
  const produced = sql`exists (
    select from model_versions v where v.tenant_id = m.tenant_id and v.model_id = m.id and v.stage = 'Production')`
  const where = sql`where m.tenant_id = ${tenantId}
    ${query.q ? sql`and (m.name ilike ${likePattern(query.q)} or m.description ilike ${likePattern(query.q)})` : sql``}
    ${query.production === undefined ? sql`` : query.production ? sql`and ${produced}` : sql`and not ${produced}`}`
  const items = await sql<ModelOverview>`
    ${overview} ${where}
    order by ${order} ${sql.raw(direction)} nulls last, m.id
    limit ${query.page_size} offset ${(query.page - 1) * query.page_size}`.execute(tx)
  const count = await sql<{ total: number }>`select count(*) as total from models m ${where}`.execute(tx)
  return { items: items.rows, total: count.rows[0]!.total }
}

/** Versions per stage in the whole tenant, and models. */
export async function countStages(
  tx: Tx,
  tenantId: string,
): Promise<{ stages: Partial<Record<Stage, number>>; models: number }> {
  const result = await sql<{ stages: Partial<Record<Stage, number>>; models: number }>`
    select (select count(*) from models where tenant_id = ${tenantId}) as models, (
      select coalesce(jsonb_object_agg(stage, count), '{}') from (
        select stage, count(*) as count from model_versions where tenant_id = ${tenantId} group by stage
      ) per_stage
    ) as stages`.execute(tx)
  return result.rows[0]!
}
