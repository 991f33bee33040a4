import { setTimeout as sleep } from 'node:timers/promises'
import type { Tx } from '../../platform/db/transaction.ts'
import { publish } from '../../platform/events/events.ts'
import type { Feature } from '../../platform/feature.ts'
import { defineRun, type RunChange, type RunKind, type StepRun, step } from '../../platform/runs/define-run.ts'
import { cancelRun } from '../../platform/runs/runs.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { eraseTenantAudit, recordSystemEntry } from '../audit/audit.api.ts'
import { notifyAdministrators } from '../notifications/notifications.api.ts'
import { deletionStatus } from './deletions.present.ts'
import { deleteTenant, findDeletion, listLiveRuns, updateDeletion } from './deletions.store.ts'
import { deleteTenantRows, listCascadedTables, listTenantTables } from './tenant-tables.store.ts'

export interface DeletionInput {
  deletionId: string
  tenantId: string
  tenantCode: string
}

type Run = StepRun<DeletionInput>

const batchRows = 1000

/** Everything of a tenant: first what runs, then what each feature keeps outside the database, then the rows. */
export function deletionKind(features: Feature[]): RunKind<DeletionInput> {
  return defineRun<DeletionInput>({
    kind: 'tenants.delete',
    steps: [
      step('stop-work', 'Stop running work', stopWork),
      ...features.flatMap((feature) => feature.tenantPurge ?? []),
      step('rows', 'Remove records', removeRows),
      step('audit', 'Reduce the audit to a tombstone', reduceAudit),
    ],
    changed,
  })
}

/** The engine runs what is canceled to its end, so that nothing of the tenant is written behind our back. */
async function stopWork(s: Run): Promise<void> {
  const { tenantId } = s.input
  for (;;) {
    s.signal.throwIfAborted()
    const live = await transaction(s.ctx, async (tx) => {
      const ids = await listLiveRuns(tx, tenantId)
      for (const id of ids) await cancelRun(tx, id, 'the tenant is being deleted')
      return ids
    })
    if (live.length === 0) return s.log('nothing is running')
    s.progress(0, `${live.length} still running`)
    await sleep(500, undefined, { signal: s.signal })
  }
}

/** In small transactions: a tenant may hold millions of rows, and whatever is gone stays gone after an interruption. */
async function removeRows(s: Run): Promise<void> {
  const { tenantId } = s.input
  const cascaded = await read(s.ctx, listCascadedTables)
  const tables = (await read(s.ctx, listTenantTables)).filter((table) => !cascaded.has(table))
  for (const [index, table] of tables.entries()) {
    let removed = 0
    for (;;) {
      s.signal.throwIfAborted()
      const count = await transaction(s.ctx, (tx) => deleteTenantRows(tx, table, tenantId, batchRows))
      removed += count
      s.progress(index / tables.length, `${table}: ${removed} removed`)
      if (count < batchRows) break
    }
    if (removed) s.log(`${table}: ${removed} rows removed`)
  }
  await transaction(s.ctx, (tx) => deleteTenant(tx, tenantId))
  s.log('the tenant itself removed')
}

async function reduceAudit(s: Run): Promise<void> {
  const { tenantId, tenantCode, deletionId } = s.input
  const erased = await eraseTenantAudit(s.ctx, tenantId, s.signal)
  s.log(`audit: ${erased} rows erased`)
  await transaction(s.ctx, async (tx) => {
    const deletion = (await findDeletion(tx, deletionId))!
    const detail = {
      tenant: tenantCode,
      counts: deletion.counts as Record<string, number>,
      requested_by: deletion.requestedBy,
    }
    await recordSystemEntry(tx, s.ctx, { id: deletionId, action: 'tenant.deleted', target: tenantCode, detail })
  })
}

async function changed(tx: Tx, change: RunChange<DeletionInput>): Promise<void> {
  const { deletionId, tenantCode } = change.input
  const tell = (data: { status: string; step: string | null; line: string | null }) =>
    publish(tx, `tenant-deletions:${deletionId}`, 'deletion', { id: deletionId, ...data })
  if (change.what === 'log') {
    const line = change.text.trimEnd().split('\n').at(-1)!.slice(0, 1000)
    return tell({ status: 'RUNNING', step: null, line })
  }
  if (change.what === 'step')
    return tell({ status: 'RUNNING', step: change.step.id, line: `${change.step.title}: ${change.step.state}` })
  const status = deletionStatus(change.state)
  const now = new Date()
  await updateDeletion(tx, deletionId, {
    status,
    error: change.error?.message ?? null,
    ...(status === 'RUNNING' ? { startedAt: now, endedAt: null } : { endedAt: now }),
  })
  await tell({ status, step: null, line: null })
  if (status !== 'RUNNING') {
    const title = status === 'DONE' ? `Tenant ${tenantCode} is deleted` : `Deleting tenant ${tenantCode} failed`
    await notifyAdministrators(tx, {
      group: 'admin',
      title,
      body: change.error?.message,
      dedupeKey: `${change.runId}:${now.getTime()}`,
    })
  }
}
