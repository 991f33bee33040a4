import { sql } from 'kysely'
import { pageAndTotal } from '../../platform/db/pages.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'

export interface StageChange {
  modelId: string
  modelName: string
  version: number
  /** Null when the version was just registered. */
  fromStage: string | null
  /** A stage, or `Deleted`. */
  toStage: string
  at: Date
  actor: string
  reason: string | null
  promotionId: string | null
}

const columns = [
  'modelId',
  'modelName',
  'version',
  'fromStage',
  'toStage',
  'at',
  'actor',
  'reason',
  'promotionId',
] as const

export async function insertStageChange(tx: Tx, tenantId: string, change: StageChange): Promise<void> {
  await tx
    .insertInto('modelStageHistory')
    .values({ id: newId(), tenantId, ...change })
    .execute()
}

/** The model that had the name last, in any case, among those that are deleted since; null when none ever had it. */
export async function findFormerModel(tx: Tx, tenantId: string, name: string): Promise<string | null> {
  const row = await tx
    .selectFrom('modelStageHistory')
    .select('modelId')
    .where('tenantId', '=', tenantId)
    .where(sql`lower(model_name)`, '=', name.toLowerCase())
    .orderBy('at', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row?.modelId ?? null
}

/** Stage changes of one version, oldest first. */
export async function findStageChanges(
  tx: Tx,
  tenantId: string,
  modelId: string,
  version: number,
): Promise<StageChange[]> {
  return tx
    .selectFrom('modelStageHistory')
    .select(columns)
    .where('tenantId', '=', tenantId)
    .where('modelId', '=', modelId)
    .where('version', '=', version)
    .orderBy('at')
    .orderBy('id')
    .execute()
}

/** Stage changes of all versions of a model, newest first; with `stage` those that led there. */
export async function listStageChanges(
  tx: Tx,
  tenantId: string,
  { modelId, stage, page, page_size }: { modelId: string; stage?: string; page: number; page_size: number },
): Promise<{ items: StageChange[]; total: number }> {
  let query = tx.selectFrom('modelStageHistory').where('tenantId', '=', tenantId).where('modelId', '=', modelId)
  if (stage) query = query.where('toStage', '=', stage)
  const items = query
    .select(columns)
    .orderBy('at', 'desc')
    .orderBy('id', 'desc')
    .limit(page_size)
    .offset((page - 1) * page_size)
  return pageAndTotal(query, items)
}

/** Versions of a model that were in a stage at a time, the latest to get there first. */
export async function findVersionsAt(
  tx: Tx,
  tenantId: string,
  { modelId, stage, at }: { modelId: string; stage: string; at: Date },
): Promise<StageChange[]> {
  return tx
    .selectFrom((eb) =>
      eb
        .selectFrom('modelStageHistory')
        .select(columns)
        .distinctOn('version')
        .where('tenantId', '=', tenantId)
        .where('modelId', '=', modelId)
        .where('at', '<=', at)
        .orderBy('version')
        .orderBy('at', 'desc')
        .orderBy('id', 'desc')
        .as('latest'),
    )
    .selectAll()
    .where('toStage', '=', stage)
    .orderBy('at', 'desc')
    .execute()
}
