import { sql } from 'kysely'
import {
  allOf,
  type Comparison,
  compare,
  compareLabel,
  type Order,
  orderBy,
  type Page,
} from '../../platform/db/filter-sql.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import type { Stage } from './models.stages.ts'
import type { VersionRow } from './versions.store.ts'

/** A version with the aliases that point to it. */
export type AliasedVersion = VersionRow & { aliases: string[] }

const columns = sql`
  v.model_id, m.name, v.version, v.stage, v.stage_at, v.description, v.tags, v.source,
  replace(v.run_id::text, '-', '') as run_id, v.experiment_id, v.logged_model_id, v.run_link, v.task, v.framework,
  v.architecture, v.classes, v.signature, v.metrics, v.environment, v.dataset, v.created_by, v.created_at, v.updated_at,
  coalesce((
    select array_agg(alias order by alias) from model_aliases a
    where a.tenant_id = v.tenant_id and a.model_id = v.model_id and a.version = v.version
  ), '{}') as aliases`
const from = sql`model_versions v join models m on m.tenant_id = v.tenant_id and m.id = v.model_id`

export async function findAliasedVersion(
  tx: Tx,
  tenantId: string,
  name: string,
  version: number,
): Promise<AliasedVersion | null> {
  const result = await sql<AliasedVersion>`
    select ${columns} from ${from}
    where v.tenant_id = ${tenantId} and lower(m.name) = lower(${name}) and v.version = ${version}`.execute(tx)
  return result.rows[0] ?? null
}

/** The newest version of each stage, of some models. */
export async function findLatestVersions(
  tx: Tx,
  tenantId: string,
  modelIds: string[],
  stages: readonly Stage[],
): Promise<AliasedVersion[]> {
  const result = await sql<AliasedVersion>`
    select distinct on (v.model_id, v.stage) ${columns} from ${from}
    where v.tenant_id = ${tenantId} and v.model_id = any(${modelIds}::uuid[]) and v.stage = any(${stages}::text[])
    order by v.model_id, v.stage, v.version desc`.execute(tx)
  return result.rows
}

export interface VersionChange {
  description?: string
  tags?: Record<string, string>
  removedTag?: string
}

export async function updateVersion(
  tx: Tx,
  tenantId: string,
  { modelId, version }: { modelId: string; version: number },
  { description, tags = {}, removedTag }: VersionChange,
): Promise<void> {
  await sql`
    update model_versions set updated_at = now(), description = coalesce(${description ?? null}, description),
      tags = (tags || ${JSON.stringify(tags)}::jsonb) - ${removedTag ?? ''}::text
    where tenant_id = ${tenantId} and model_id = ${modelId} and version = ${version}`.execute(tx)
}

export interface RegistrySearch {
  comparisons: Comparison[]
  orders: Order[]
  offset: number
  limit: number
}

const versionColumns: Record<string, ReturnType<typeof sql>> = {
  name: sql`m.name`,
  version_number: sql`v.version`,
  run_id: sql`replace(v.run_id::text, '-', '')`,
  source_path: sql`v.source`,
  creation_timestamp: sql`(extract(epoch from v.created_at) * 1000)`,
  last_updated_timestamp: sql`(extract(epoch from v.updated_at) * 1000)`,
}

export async function searchVersions(tx: Tx, tenantId: string, search: RegistrySearch): Promise<Page<AliasedVersion>> {
  const { comparisons, orders, offset, limit } = search
  const conditions = comparisons.map((comparison) =>
    comparison.entity === 'tag'
      ? compareTag(sql`v.tags`, comparison)
      : compare(versionColumns[comparison.key]!, comparison),
  )
  const given = orders.map(({ key, descending }) => ({ column: versionColumns[key]!, descending }))
  const usual = [
    { column: sql`v.updated_at`, descending: true },
    { column: sql`m.name`, descending: false },
  ]
  const result = await sql<AliasedVersion>`
    select ${columns} from ${from}
    where v.tenant_id = ${tenantId} and ${allOf(conditions)}
    order by ${orderBy([...(given.length ? given : usual), { column: sql`m.name`, descending: false }, { column: sql`v.version`, descending: true }])}
    limit ${limit + 1} offset ${offset}`.execute(tx)
  return { items: result.rows.slice(0, limit), more: result.rows.length > limit }
}

/**
 * Clients hide prompts by asking for models whose mark is not 'true': those without the mark are meant too.
 */
export function compareTag(labels: ReturnType<typeof sql>, comparison: Comparison): ReturnType<typeof sql> {
  const mark = comparison.key === 'mlflow.prompt.is_prompt' && comparison.operator === '!='
  return mark
    ? sql`(${labels} ->> ${comparison.key}::text) is distinct from ${comparison.value}::text`
    : compareLabel(labels, comparison)
}
