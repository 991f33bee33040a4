import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

export const experimentColumns = [
  'experimentId',
  'name',
  'artifactLocation',
  'lifecycleStage',
  'tags',
  'createdMs',
  'updatedMs',
] as const

const nowMs = sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`

export interface ExperimentRow {
  experimentId: number
  name: string
  /** Null for the platform's own store. */
  artifactLocation: string | null
  lifecycleStage: string
  tags: Record<string, string>
  createdMs: number
  updatedMs: number
}

export async function findExperiment(tx: Tx, tenantId: string, experimentId: number): Promise<ExperimentRow | null> {
  const row = await tx
    .selectFrom('trackerExperiments')
    .select(experimentColumns)
    .where('tenantId', '=', tenantId)
    .where('experimentId', '=', experimentId)
    .executeTakeFirst()
  return (row as ExperimentRow | undefined) ?? null
}

export async function findExperimentByName(tx: Tx, tenantId: string, name: string): Promise<ExperimentRow | null> {
  const row = await tx
    .selectFrom('trackerExperiments')
    .select(experimentColumns)
    .where('tenantId', '=', tenantId)
    .where('name', '=', name)
    .executeTakeFirst()
  return (row as ExperimentRow | undefined) ?? null
}

/** Null when the name is taken, also by a deleted experiment. @source contract B10.5 */
export async function insertExperiment(
  tx: Tx,
  tenantId: string,
  name: string,
  { tags = {}, artifactLocation = null }: { tags?: Record<string, string>; artifactLocation?: string | null } = {},
): Promise<number | null> {
  const result = await sql<{ experimentId: number }>`
    with next as (
      update tracker_experiment_counters set last_id = last_id + 1 where tenant_id = ${tenantId} returning last_id
    )
    insert into tracker_experiments (tenant_id, experiment_id, name, tags, artifact_location)
    select ${tenantId}, last_id, ${name}, ${JSON.stringify(tags)}::jsonb, ${artifactLocation} from next
    on conflict on constraint tracker_experiments_name do nothing
    returning experiment_id`.execute(tx)
  return result.rows[0]?.experimentId ?? null
}

export interface ExperimentChange {
  name?: string
  lifecycleStage?: 'active' | 'deleted'
}

/** Throws PostgreSQL's 23505 when the name is taken. */
export async function updateExperiment(
  tx: Tx,
  tenantId: string,
  experimentId: number,
  change: ExperimentChange,
): Promise<void> {
  await tx
    .updateTable('trackerExperiments')
    .set({ ...change, updatedMs: nowMs })
    .where('tenantId', '=', tenantId)
    .where('experimentId', '=', experimentId)
    .execute()
}

/** A value of null removes the tag. */
export async function changeExperimentTag(
  tx: Tx,
  tenantId: string,
  experimentId: number,
  key: string,
  value: string | null,
): Promise<void> {
  await sql`
    update tracker_experiments
    set tags = ${value === null ? sql`tags - ${key}::text` : sql`tags || jsonb_build_object(${key}::text, ${value}::text)`},
      updated_ms = ${nowMs}
    where tenant_id = ${tenantId} and experiment_id = ${experimentId}`.execute(tx)
}

/** Deletes or restores every run of an experiment with it. */
export async function setLifecycleOfRuns(
  tx: Tx,
  tenantId: string,
  experimentId: number,
  lifecycleStage: 'active' | 'deleted',
): Promise<void> {
  await tx
    .updateTable('trackerRuns')
    .set({ lifecycleStage })
    .where('tenantId', '=', tenantId)
    .where('experimentId', '=', experimentId)
    .execute()
}
