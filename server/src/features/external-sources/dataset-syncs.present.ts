import type { SyncStatusRow } from './dataset-syncs.service.ts'
import type { SyncConfigRow, SyncRunRow } from './dataset-syncs.store.ts'
import type { SyncOutcome } from './sync-objects.store.ts'

const configView = (sourceId: string, config: SyncConfigRow) => ({
  source_id: sourceId,
  prefix: config.prefix,
  include: config.include,
  delete_missing: config.deleteMissing,
  schedule: config.schedule,
  next_at: config.nextAt,
  updated_by: config.updatedBy,
  updated_at: config.updatedAt,
})

export const syncConfigView = ({ sourceId, config }: SyncStatusRow) =>
  sourceId && config ? configView(sourceId, config) : null

const countsView = ({ added, updated, removed, skipped, unchanged, failed, bytes }: SyncRunRow) => ({
  added,
  updated,
  removed,
  skipped,
  unchanged,
  failed,
  bytes,
})

export const syncStatusView = (status: SyncStatusRow) => ({
  config: syncConfigView(status),
  state: status.run?.state ?? 'IDLE',
  run_id: status.run?.id ?? null,
  counts: status.run && countsView(status.run),
  error: status.run?.error ?? null,
  dry_run: status.run?.dryRun ?? false,
  progress: status.progress.fraction,
  message: status.progress.message,
  started_at: status.run?.startedAt ?? null,
  ended_at: status.run?.endedAt ?? null,
})

export const syncRunView = (run: SyncRunRow) => ({
  run_id: run.id,
  source_id: run.sourceId,
  source_name: run.sourceName,
  dry_run: run.dryRun,
  trigger: run.trigger,
  state: run.state,
  counts: countsView(run),
  error: run.error,
  started_by: run.startedBy,
  started_at: run.startedAt,
  ended_at: run.endedAt,
})

export const outcomeView = ({ path, action, reason, size }: SyncOutcome & { size: number | null }) => ({
  path,
  action,
  reason,
  size,
})
