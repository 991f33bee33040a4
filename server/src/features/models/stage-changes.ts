import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { insertStageChange } from './history.store.ts'
import type { Stage } from './models.stages.ts'
import { setStage, type VersionRow } from './versions.store.ts'

/** What the registry needs to know of the caller. */
export type ModelsCtx = Pick<TenantCtx, 'tenant' | 'actor' | 'clock'>

export interface StageReason {
  reason?: string | null
  promotionId?: string | null
}

/** Gives a version its stage and writes who did it and why. The stage it has already is no change. */
export async function changeStage(
  tx: Tx,
  ctx: ModelsCtx,
  version: VersionRow,
  stage: Stage,
  why: StageReason = {},
): Promise<void> {
  if (version.stage === stage) return
  await setStage(tx, ctx.tenant.id, version, stage)
  await recordStage(tx, ctx, version, version.stage, stage, why)
}

/** The row of the history alone: for versions that come and go. */
export function recordStage(
  tx: Tx,
  ctx: ModelsCtx,
  version: Pick<VersionRow, 'modelId' | 'name' | 'version'>,
  fromStage: Stage | null,
  toStage: Stage | 'Deleted',
  why: StageReason = {},
): Promise<void> {
  return insertStageChange(tx, ctx.tenant.id, {
    modelId: version.modelId,
    modelName: version.name,
    version: version.version,
    fromStage,
    toStage,
    at: ctx.clock.now(),
    actor: ctx.actor.email,
    reason: why.reason ?? null,
    promotionId: why.promotionId ?? null,
  })
}
