import type { TenantCtx } from '../../../platform/context.ts'
import type { Tx } from '../../../platform/db/transaction.ts'
import { findLoggedModels, type LoggedModelRow } from './logged-models.store.ts'
import { doesNotExist } from './mlflow-errors.ts'

/** All of them, in the order asked for. Throws RESOURCE_DOES_NOT_EXIST for one that is not there or deleted. */
export async function loadLoggedModels(tx: Tx, ctx: TenantCtx, modelIds: string[]): Promise<LoggedModelRow[]> {
  if (modelIds.length === 0) return []
  const found = new Map((await findLoggedModels(tx, ctx.tenant.id, modelIds)).map((row) => [row.modelId, row]))
  return modelIds.map((id) => {
    const model = found.get(id)
    if (!model) throw doesNotExist(`Logged model with ID '${id}' not found.`)
    return model
  })
}

export async function loadLoggedModel(tx: Tx, ctx: TenantCtx, modelId: string): Promise<LoggedModelRow> {
  const [model] = await loadLoggedModels(tx, ctx, [modelId])
  return model!
}
