import type { TenantCtx } from '../../../platform/context.ts'
import type { Tx } from '../../../platform/db/transaction.ts'
import { findRun, type TrackerRunRow } from '../runs.store.ts'
import { doesNotExist, invalidParameter } from './mlflow-errors.ts'

export const noSuchRun = (runId: string) => doesNotExist(`Run with id=${runId} not found`)

export const deletedRun = (runId: string) =>
  invalidParameter(`The run ${runId} must be in the 'active' state. Current state is deleted.`)

/** Throws RESOURCE_DOES_NOT_EXIST. */
export async function loadRun(tx: Tx, ctx: TenantCtx, runId: string): Promise<TrackerRunRow> {
  const run = await findRun(tx, ctx.tenant.id, runId)
  if (!run) throw noSuchRun(runId)
  return run
}

/** The run, which must not be deleted: nothing more is logged to one that is. @source contract B10.5 */
export async function loadActiveRun(tx: Tx, ctx: TenantCtx, runId: string): Promise<TrackerRunRow> {
  const run = await loadRun(tx, ctx, runId)
  if (run.lifecycleStage === 'active') return run
  throw deletedRun(runId)
}
