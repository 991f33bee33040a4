import { type Selectable, sql } from 'kysely'
import type { DB } from '../../platform/db/database.generated.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import type { PageQuery } from '../../platform/http/lists.ts'
import type { SyncTarget } from '../datasets/dataset-sync.api.ts'

/** How a dataset follows its source, and the syncs it had. */

export type SyncConfigRow = Selectable<DB['datasetSyncs']>

export const syncStates = ['RUNNING', 'DONE', 'FAILED', 'CANCELED'] as const
export type SyncState = (typeof syncStates)[number]

export interface SyncError {
  code: string
  message: string
}

export interface SyncRunRow extends Omit<Selectable<DB['datasetSyncRuns']>, 'state' | 'error' | 'trigger'> {
  state: SyncState
  trigger: 'manual' | 'schedule'
  error: SyncError | null
}

export const findConfig = (tx: Tx, { tenantId, datasetId }: SyncTarget): Promise<SyncConfigRow | undefined> =>
  tx
    .selectFrom('datasetSyncs')
    .selectAll()
    .where('tenantId', '=', tenantId)
    .where('datasetId', '=', datasetId)
    .executeTakeFirst()

export type NewSyncConfig = Pick<
  SyncConfigRow,
  'prefix' | 'include' | 'deleteMissing' | 'schedule' | 'nextAt' | 'updatedBy'
>

export async function saveConfig(tx: Tx, target: SyncTarget, config: NewSyncConfig): Promise<void> {
  await tx
    .insertInto('datasetSyncs')
    .values({ ...target, ...config })
    .onConflict((oc) => oc.columns(['tenantId', 'datasetId']).doUpdateSet({ ...config, updatedAt: sql`now()` }))
    .execute()
}

export async function deleteConfig(tx: Tx, { tenantId, datasetId }: SyncTarget): Promise<void> {
  await tx.deleteFrom('datasetSyncs').where('tenantId', '=', tenantId).where('datasetId', '=', datasetId).execute()
}

export async function setNextTime(tx: Tx, { tenantId, datasetId }: SyncTarget, nextAt: Date | null): Promise<void> {
  await tx
    .updateTable('datasetSyncs')
    .set({ nextAt })
    .where('tenantId', '=', tenantId)
    .where('datasetId', '=', datasetId)
    .execute()
}

/** Of every tenant that is active: what is due, longest first. */
export async function listDueConfigs(tx: Tx, now: Date, limit: number): Promise<SyncConfigRow[]> {
  return tx
    .selectFrom('datasetSyncs')
    .selectAll()
    .where('nextAt', '<=', now)
    .where('tenantId', 'in', (eb) => eb.selectFrom('tenants').select('id').where('isActive', '=', true))
    .orderBy('nextAt')
    .limit(limit)
    .execute()
}

export type NewSyncRun = Pick<
  SyncRunRow,
  'id' | 'sourceId' | 'sourceName' | 'dryRun' | 'trigger' | 'startedBy' | 'startedAt'
>

export async function insertSyncRun(tx: Tx, target: SyncTarget, run: NewSyncRun): Promise<void> {
  await tx
    .insertInto('datasetSyncRuns')
    .values({ ...target, ...run })
    .execute()
}

const selectRuns = (tx: Tx, { tenantId, datasetId }: SyncTarget) =>
  tx
    .selectFrom('datasetSyncRuns')
    .selectAll()
    .where('tenantId', '=', tenantId)
    .where('datasetId', '=', datasetId)
    .$castTo<SyncRunRow>()

export const findSyncRun = (tx: Tx, target: SyncTarget, id: string): Promise<SyncRunRow | undefined> =>
  selectRuns(tx, target).where('id', '=', id).executeTakeFirst()

export const findLastRun = (tx: Tx, target: SyncTarget): Promise<SyncRunRow | undefined> =>
  selectRuns(tx, target).orderBy('startedAt', 'desc').orderBy('id', 'desc').limit(1).executeTakeFirst()

/** Newest first. */
export async function listSyncRuns(
  tx: Tx,
  target: SyncTarget,
  { page, page_size }: PageQuery,
): Promise<{ items: SyncRunRow[]; total: number }> {
  const { total } = await tx
    .selectFrom('datasetSyncRuns')
    .select(({ fn }) => fn.countAll<number>().as('total'))
    .where('tenantId', '=', target.tenantId)
    .where('datasetId', '=', target.datasetId)
    .executeTakeFirstOrThrow()
  const items = await selectRuns(tx, target)
    .orderBy('startedAt', 'desc')
    .orderBy('id', 'desc')
    .limit(page_size)
    .offset((page - 1) * page_size)
    .execute()
  return { items, total }
}

export interface SyncCounts {
  added: number
  updated: number
  removed: number
  skipped: number
  unchanged: number
  failed: number
  bytes: number
}

export const noCounts: SyncCounts = { added: 0, updated: 0, removed: 0, skipped: 0, unchanged: 0, failed: 0, bytes: 0 }

export const setCounts = (tx: Tx, id: string, counts: SyncCounts) =>
  tx.updateTable('datasetSyncRuns').set(counts).where('id', '=', id).execute()

export async function addCounts(tx: Tx, id: string, more: Partial<SyncCounts>): Promise<void> {
  const { added, updated, removed, skipped, unchanged, failed, bytes } = { ...noCounts, ...more }
  await sql`
    update dataset_sync_runs set added = added + ${added}, updated = updated + ${updated},
      removed = removed + ${removed}, skipped = skipped + ${skipped}, unchanged = unchanged + ${unchanged},
      failed = failed + ${failed}, bytes = bytes + ${bytes}
    where id = ${id}`.execute(tx)
}

export async function noteSyncError(tx: Tx, id: string, error: SyncError): Promise<void> {
  await tx
    .updateTable('datasetSyncRuns')
    .set({ error: JSON.stringify(error) })
    .where('id', '=', id)
    .execute()
}

/** Gives the run as it ended, or nothing when it is gone or had ended before. */
export async function endSyncRun(tx: Tx, id: string, state: SyncState, endedAt: Date): Promise<SyncRunRow | undefined> {
  return tx
    .updateTable('datasetSyncRuns')
    .set({ state, endedAt })
    .where('id', '=', id)
    .where('state', '=', 'RUNNING')
    .returningAll()
    .$castTo<SyncRunRow>()
    .executeTakeFirst()
}

/** Forgets all syncs of a dataset but the latest. */
export async function pruneSyncRuns(tx: Tx, { tenantId, datasetId }: SyncTarget, keep: number): Promise<void> {
  await sql`
    delete from dataset_sync_runs where id in (
      select id from dataset_sync_runs
      where tenant_id = ${tenantId} and dataset_id = ${datasetId} and state <> 'RUNNING'
      order by started_at desc, id desc offset ${keep})`.execute(tx)
}
