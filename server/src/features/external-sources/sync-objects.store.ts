import { type SqlBool, sql } from 'kysely'
import { pageAndTotal } from '../../platform/db/pages.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import type { PageQuery } from '../../platform/http/lists.ts'
import type { SyncTarget } from '../datasets/dataset-sync.api.ts'

/** The objects of one sync, and what is remembered of those that became files. */

export const syncActions = ['add', 'update', 'remove', 'skip', 'unchanged', 'fail'] as const
export type SyncAction = (typeof syncActions)[number]

export interface SyncObject {
  path: string
  key: string
  size: number | null
  version: string | null
  knownVersion: string | null
  action: SyncAction
  reason: string | null
  done: boolean
}

/** Gives the paths that were not in the list of this run yet. */
export async function stageObjects(
  tx: Tx,
  run: { id: string; tenantId: string },
  objects: SyncObject[],
): Promise<Set<string>> {
  const column = (key: keyof SyncObject) => objects.map((object) => object[key])
  const { rows } = await sql<{ path: string }>`
    insert into dataset_sync_objects (run_id, tenant_id, path, key, size, version, known_version, action, reason, done)
    select ${run.id}, ${run.tenantId}, n.* from unnest(${column('path')}::text[], ${column('key')}::text[],
      ${column('size')}::bigint[], ${column('version')}::text[], ${column('knownVersion')}::text[],
      ${column('action')}::text[], ${column('reason')}::text[], ${column('done')}::boolean[]) as n
    on conflict (run_id, path) do nothing returning path`.execute(tx)
  return new Set(rows.map(({ path }) => path))
}

export async function clearObjects(tx: Tx, runId: string): Promise<void> {
  await tx.deleteFrom('datasetSyncObjects').where('runId', '=', runId).execute()
}

/** What is still to be read, in the order of paths. */
export async function listPending(tx: Tx, runId: string, after: string, limit: number): Promise<SyncObject[]> {
  return tx
    .selectFrom('datasetSyncObjects')
    .select(['path', 'key', 'size', 'version', 'knownVersion', 'action', 'reason', 'done'])
    .where('runId', '=', runId)
    .where('done', '=', false)
    .where('path', '>', after)
    .orderBy('path')
    .limit(limit)
    .$castTo<SyncObject>()
    .execute()
}

export interface SyncOutcome {
  path: string
  action: SyncAction
  reason: string | null
}

export async function settleObjects(tx: Tx, runId: string, outcomes: SyncOutcome[]): Promise<void> {
  const column = (key: keyof SyncOutcome) => outcomes.map((outcome) => outcome[key])
  await sql`
    update dataset_sync_objects o set action = n.action, reason = n.reason, done = true
    from unnest(${column('path')}::text[], ${column('action')}::text[], ${column('reason')}::text[])
      as n (path, action, reason)
    where o.run_id = ${runId} and o.path = n.path`.execute(tx)
}

/** Of these paths, those that the source did not list in this run. */
export async function unlistedAmong(tx: Tx, runId: string, paths: string[]): Promise<string[]> {
  const { rows } = await sql<{ path: string }>`
    select n.path from unnest(${paths}::text[]) as n (path)
    where not exists (select from dataset_sync_objects o where o.run_id = ${runId} and o.path = n.path)`.execute(tx)
  return rows.map(({ path }) => path)
}

/** What became of the objects: those that anything is to be told of, in the order of paths. */
export async function listOutcomes(
  tx: Tx,
  runId: string,
  { page, page_size, action }: PageQuery & { action?: SyncAction },
): Promise<{ items: (SyncOutcome & { size: number | null })[]; total: number }> {
  let query = tx.selectFrom('datasetSyncObjects').where('runId', '=', runId).where('done', '=', true)
  query = action ? query.where('action', '=', action) : query.where(sql<SqlBool>`action <> 'unchanged'`)
  const items = query
    .select(['path', 'action', 'reason', 'size'])
    .orderBy('path')
    .limit(page_size)
    .offset((page - 1) * page_size)
    .$castTo<SyncOutcome & { size: number | null }>()
  return pageAndTotal(query, items)
}

/** Forgets objects that tell nothing, and of those that do all but so many of each action; at most `limit` at once. */
export async function pruneObjects(tx: Tx, runId: string, keep: number, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from dataset_sync_objects where run_id = ${runId} and path in (
      (select path from dataset_sync_objects where run_id = ${runId} and action = 'unchanged' limit ${limit})
      union all (select path from dataset_sync_objects where run_id = ${runId} and not done limit ${limit})
      union all (select o.path from unnest(${[...syncActions]}::text[]) as a (action), lateral (
        select path from dataset_sync_objects
        where run_id = ${runId} and action = a.action order by path offset ${keep} limit ${limit}) o)
      limit ${limit})`.execute(tx)
  return Number(numAffectedRows ?? 0)
}

export interface SyncEntry {
  path: string
  /** Place and key. */
  origin: string
  version: string
  digest: string
}

export async function findEntries(
  tx: Tx,
  { tenantId, datasetId }: SyncTarget,
  paths: string[],
): Promise<Map<string, SyncEntry>> {
  const { rows } = await sql<SyncEntry>`
    select path, origin, version, digest from dataset_sync_entries
    where tenant_id = ${tenantId} and dataset_id = ${datasetId} and path = any(${paths}::text[])`.execute(tx)
  return new Map(rows.map((entry) => [entry.path, entry]))
}

export async function saveEntries(tx: Tx, { tenantId, datasetId }: SyncTarget, entries: SyncEntry[]): Promise<void> {
  if (entries.length === 0) return
  const column = (key: keyof SyncEntry) => entries.map((entry) => entry[key])
  await sql`
    insert into dataset_sync_entries (tenant_id, dataset_id, path, origin, version, digest)
    select ${tenantId}, ${datasetId}, n.* from unnest(${column('path')}::text[], ${column('origin')}::text[],
      ${column('version')}::text[], ${column('digest')}::text[]) as n
    on conflict (tenant_id, dataset_id, path) do update set
      origin = excluded.origin, version = excluded.version, digest = excluded.digest`.execute(tx)
}

export async function forgetEntries(tx: Tx, { tenantId, datasetId }: SyncTarget, paths: string[]): Promise<void> {
  await sql`
    delete from dataset_sync_entries
    where tenant_id = ${tenantId} and dataset_id = ${datasetId} and path = any(${paths}::text[])`.execute(tx)
}
