import { audited } from '../../platform/audit.ts'
import type { SystemCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { badRequest, conflict, notFound } from '../../platform/errors.ts'
import type { Feature } from '../../platform/feature.ts'
import type { RunKind } from '../../platform/runs/define-run.ts'
import { listSteps, readRunLog, retryRun, startRun } from '../../platform/runs/runs.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { countTenantAudit } from '../audit/audit.api.ts'
import type { DeletionInput } from './deletion.runs.ts'
import type { DeletionDetails } from './deletions.present.ts'
import {
  type DeletionRow,
  findDeletion,
  insertDeletion,
  listDeletions,
  lockDeletion,
  lockTenant,
  updateDeletion,
} from './deletions.store.ts'
import { countTenantRows } from './tenant-tables.store.ts'
import { loadTenant } from './tenants.service.ts'
import { type TenantRow, updateTenant } from './tenants.store.ts'

export const listTenantDeletions = (ctx: SystemCtx): Promise<DeletionRow[]> => read(ctx, listDeletions)

export interface Preview {
  tenant: TenantRow
  counts: Record<string, number>
}

/** What a deletion would remove: rows of every table, and what features keep elsewhere. */
export const previewDeletion = (ctx: SystemCtx, tenantId: string, features: Feature[]): Promise<Preview> =>
  read(ctx, async (tx) => ({
    tenant: await loadTenant(tx, tenantId),
    counts: await countEverything(tx, tenantId, features),
  }))

async function countEverything(tx: Tx, tenantId: string, features: Feature[]): Promise<Record<string, number>> {
  const counts = await countTenantRows(tx, tenantId)
  for (const feature of features) Object.assign(counts, await feature.tenantCounts?.(tx, tenantId))
  counts.audit_events = await countTenantAudit(tx, tenantId)
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0))
}

/**
 * Closes the tenant at once and starts removing it. Throws `bad_request` unless its code was typed again, and
 * `conflict` when its deletion was asked for before. @source contract B3.4
 */
export async function startDeletion(
  ctx: SystemCtx & { actor: NonNullable<SystemCtx['actor']> },
  tenantId: string,
  confirmCode: string,
  features: Feature[],
  kind: RunKind<DeletionInput>,
): Promise<DeletionDetails> {
  const id = await transaction(ctx, async (tx) => {
    const tenant = await lockTenant(tx, tenantId)
    if (!tenant) throw notFound('There is no such tenant.')
    if (confirmCode !== tenant.code)
      throw badRequest('confirm_code is not the code of this tenant.', { detail: { reason: 'confirm_code' } })
    const { deletionId: earlier } = await loadTenant(tx, tenantId)
    if (earlier)
      throw conflict('Its deletion was asked for; retry it if it failed.', { detail: { deletion_id: earlier } })
    const counts = await countEverything(tx, tenantId, features)
    audited(ctx, tenant.code, { counts })
    const deletion = {
      tenantId,
      tenantCode: tenant.code,
      tenantName: tenant.name,
      counts,
      requestedBy: ctx.actor.email,
    }
    const deletionId = await insertDeletion(tx, deletion)
    const input = { deletionId, tenantId, tenantCode: tenant.code }
    const runId = await startRun(tx, ctx, kind, input, { subject: `tenant:${tenantId}` })
    await updateDeletion(tx, deletionId, { runId })
    await updateTenant(tx, tenantId, { isActive: false })
    return deletionId
  })
  return getDeletion(ctx, id)
}

/** Runs the steps again that are not done. Throws `conflict` unless it failed. @source contract B3.4 */
export async function retryDeletion(ctx: SystemCtx, id: string): Promise<DeletionDetails> {
  await transaction(ctx, async (tx) => {
    const deletion = await lockDeletion(tx, id)
    if (!deletion) throw notFound('There is no such deletion.')
    audited(ctx, deletion.tenantCode)
    if (deletion.status !== 'FAILED' || !deletion.runId) throw conflict('Only a failed deletion can be tried again.')
    await retryRun(tx, deletion.runId)
    await updateDeletion(tx, id, { status: 'PENDING', error: null, endedAt: null })
  })
  return getDeletion(ctx, id)
}

/** Throws `not_found`. */
export async function getDeletion(ctx: SystemCtx, id: string): Promise<DeletionDetails> {
  const { deletion, steps } = await read(ctx, async (tx) => {
    const deletion = await findDeletion(tx, id)
    if (!deletion) throw notFound('There is no such deletion.')
    return { deletion, steps: deletion.runId ? await listSteps(tx, deletion.runId) : [] }
  })
  let log = ''
  if (deletion.runId) for await (const piece of readRunLog((work) => read(ctx, work), deletion.runId)) log += piece
  return { deletion, steps, log }
}
