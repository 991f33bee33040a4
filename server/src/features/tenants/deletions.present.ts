import type { StepView } from '../../platform/runs/runs.ts'
import type { DeletionRow } from './deletions.store.ts'

/** @source contract B3.4 */
const statuses: Record<string, string> = {
  pending: 'PENDING',
  running: 'RUNNING',
  succeeded: 'DONE',
  failed: 'FAILED',
  canceled: 'FAILED',
  skipped: 'SKIPPED',
}

/** Public status of a run or step. */
export const deletionStatus = (state: string): string => statuses[state] ?? 'FAILED'

export const deletionSummaryView = (deletion: DeletionRow) => ({
  id: deletion.id,
  tenant_id: deletion.tenantId,
  tenant_code: deletion.tenantCode,
  tenant_name: deletion.tenantName,
  status: deletion.status,
  counts: deletion.counts,
  requested_by: deletion.requestedBy,
  error: deletion.error,
  created_at: deletion.createdAt,
  started_at: deletion.startedAt,
  ended_at: deletion.endedAt,
})

export interface DeletionDetails {
  deletion: DeletionRow
  steps: StepView[]
  log: string
}

export const deletionView = ({ deletion, steps, log }: DeletionDetails) => ({
  ...deletionSummaryView(deletion),
  steps: steps.map((step) => ({
    id: step.id,
    title: step.title,
    status: deletionStatus(step.state),
    progress: step.progress,
    message: step.message,
    started_at: step.startedAt,
    ended_at: step.endedAt,
  })),
  log,
})
