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

export async function insertStageChange(tx: Tx, tenantId: string, change: StageChange): Promise<void> {
  await tx
    .insertInto('modelStageHistory')
    .values({ id: newId(), tenantId, ...change })
    .execute()
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
    .select(['modelId', 'modelName', 'version', 'fromStage', 'toStage', 'at', 'actor', 'reason', 'promotionId'])
    .where('tenantId', '=', tenantId)
    .where('modelId', '=', modelId)
    .where('version', '=', version)
    .orderBy('at')
    .orderBy('id')
    .execute()
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
        .select(['modelId', 'modelName', 'version', 'fromStage', 'toStage', 'at', 'actor', 'reason', 'promotionId'])
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
