import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'

export type TrackerRunStatus = 'RUNNING' | 'SCHEDULED' | 'FINISHED' | 'FAILED' | 'KILLED'

export interface TrackerRunRow {
  /** 32 hexadecimal digits. */
  runId: string
  experimentId: number
  /** Of the experiment; null for the platform's own store. */
  artifactLocation: string | null
  name: string
  userName: string
  status: TrackerRunStatus
  lifecycleStage: 'active' | 'deleted'
  startMs: number | null
  endMs: number | null
}

/** The 32 digits of a run id, as clients know it. */
export const runIdOf = (uuid: string): string => uuid.replaceAll('-', '')

export const isRunId = (text: string): boolean => /^[0-9a-f]{32}$/.test(text)

export interface NewTrackerRun {
  experimentId: number
  name: string
  userName: string
  startMs: number
  status?: TrackerRunStatus
}

export async function insertRun(tx: Tx, tenantId: string, run: NewTrackerRun): Promise<string> {
  const runId = newId()
  await tx
    .insertInto('trackerRuns')
    .values({ runId, tenantId, ...run })
    .execute()
  return runIdOf(runId)
}

/** Of a run's experiment; looked up for the runs that are shown only, where a join would be made for all. */
export const artifactLocation = sql`(
  select e.artifact_location from tracker_experiments e
  where e.tenant_id = r.tenant_id and e.experiment_id = r.experiment_id)`

/** What there is to know of a row `r` of tracker_runs. */
export const runColumns = sql`
  replace(r.run_id::text, '-', '') as run_id, r.experiment_id, r.name, r.user_name, r.status, r.lifecycle_stage,
  r.start_ms, r.end_ms, ${artifactLocation} as artifact_location`

export async function findRun(tx: Tx, tenantId: string, runId: string): Promise<TrackerRunRow | null> {
  if (!isRunId(runId)) return null
  const result = await sql<TrackerRunRow>`
    select ${runColumns} from tracker_runs r where r.tenant_id = ${tenantId} and r.run_id = ${runId}`.execute(tx)
  return result.rows[0] ?? null
}

export interface TrackerRunChange {
  name?: string
  status?: TrackerRunStatus
  endMs?: number | null
  lifecycleStage?: 'active' | 'deleted'
}

export async function updateRun(tx: Tx, tenantId: string, runId: string, change: TrackerRunChange): Promise<void> {
  if (Object.keys(change).length === 0) return
  await tx.updateTable('trackerRuns').set(change).where('tenantId', '=', tenantId).where('runId', '=', runId).execute()
}

/** Removes the run with everything it logged. */
export async function deleteRun(tx: Tx, tenantId: string, runId: string): Promise<void> {
  await tx.deleteFrom('trackerRuns').where('tenantId', '=', tenantId).where('runId', '=', runId).execute()
}

/** Parameters never change: gives back the keys that hold another value already. @source contract B10.6 */
export async function insertParams(
  tx: Tx,
  tenantId: string,
  runId: string,
  params: [key: string, value: string][],
): Promise<{ key: string; held: string; given: string }[]> {
  if (params.length === 0) return []
  const [keys, values] = columnsOf(params)
  // The update changes nothing; it makes a value that another transaction wrote at the same time come back too.
  const result = await sql<{ key: string; held: string; given: string }>`
    with given as (select * from unnest(${keys}::text[], ${values}::text[]) as g(key, value)),
    held as (
      insert into tracker_params as p (run_id, tenant_id, key, value)
      select ${runId}::uuid, ${tenantId}::uuid, key, value from given order by key
      on conflict (run_id, key) do update set value = p.value
      returning key, value
    )
    select g.key, h.value as held, g.value as given from given g join held h using (key) where h.value <> g.value
    `.execute(tx)
  return result.rows
}

export async function upsertTags(
  tx: Tx,
  tenantId: string,
  runId: string,
  tags: [key: string, value: string][],
): Promise<void> {
  if (tags.length === 0) return
  const [keys, values] = columnsOf(tags)
  await sql`
    insert into tracker_tags (run_id, tenant_id, key, value)
    select ${runId}::uuid, ${tenantId}::uuid, key, value
    from unnest(${keys}::text[], ${values}::text[]) as g(key, value) order by key
    on conflict (run_id, key) do update set value = excluded.value`.execute(tx)
}

/** Whether there was such a tag. */
export async function deleteTag(tx: Tx, tenantId: string, runId: string, key: string): Promise<boolean> {
  const result = await tx
    .deleteFrom('trackerTags')
    .where('tenantId', '=', tenantId)
    .where('runId', '=', runId)
    .where('key', '=', key)
    .executeTakeFirst()
  return result.numDeletedRows > 0n
}

const columnsOf = (entries: [string, string][]): [string[], string[]] => [
  entries.map(([key]) => key),
  entries.map(([, value]) => value),
]
