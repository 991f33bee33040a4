import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'

export interface NewDeletion {
  tenantId: string
  tenantCode: string
  tenantName: string
  counts: Record<string, number>
  requestedBy: string
}

export async function insertDeletion(tx: Tx, deletion: NewDeletion): Promise<string> {
  const id = newId()
  await tx
    .insertInto('tenantDeletions')
    .values({ id, ...deletion, counts: JSON.stringify(deletion.counts) })
    .execute()
  return id
}

export async function listDeletions(tx: Tx) {
  return tx.selectFrom('tenantDeletions').selectAll().orderBy('createdAt', 'desc').orderBy('id', 'desc').execute()
}

export type DeletionRow = Awaited<ReturnType<typeof listDeletions>>[number]

export async function findDeletion(tx: Tx, id: string): Promise<DeletionRow | undefined> {
  return tx.selectFrom('tenantDeletions').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Locks the row, so that of two retries one starts. */
export async function lockDeletion(tx: Tx, id: string): Promise<DeletionRow | undefined> {
  return tx.selectFrom('tenantDeletions').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
}

export interface DeletionChange {
  status?: string
  runId?: string
  error?: string | null
  startedAt?: Date
  endedAt?: Date | null
}

export async function updateDeletion(tx: Tx, id: string, change: DeletionChange): Promise<void> {
  await tx.updateTable('tenantDeletions').set(change).where('id', '=', id).execute()
}

/** Locks the tenant until the transaction ends. */
export async function lockTenant(tx: Tx, id: string) {
  return tx.selectFrom('tenants').select(['id', 'code', 'name']).where('id', '=', id).forUpdate().executeTakeFirst()
}

export async function deleteTenant(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('tenants').where('id', '=', id).execute()
}

/** Ids of the tenant's runs that wait or are under way. */
export async function listLiveRuns(tx: Tx, tenantId: string): Promise<string[]> {
  const rows = await tx
    .selectFrom('runs')
    .select('id')
    .where('tenantId', '=', tenantId)
    .where('state', 'in', ['pending', 'running'])
    .execute()
  return rows.map((row) => row.id)
}
