import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { read } from '../../platform/transaction.ts'
import { findTrackerRunSummary, type TrackerRunSummary } from '../tracker/tracker.api.ts'
import { findStageChanges, type StageChange } from './history.store.ts'
import { type ListedVersion, loadVersion, withExtras } from './models.service.ts'
import type { Stage } from './models.stages.ts'
import { versionFiles, versionSource } from './version-files.ts'
import type { VersionFile, VersionRow } from './versions.store.ts'

/** A stage with the time a version had it. */
export interface StagePeriod {
  stage: Stage
  from: Date
  /** Null while it lasts. */
  to: Date | null
  actor: string
  reason: string | null
  promotionId: string | null
}

export interface VersionDetails {
  version: ListedVersion
  source: string
  files: VersionFile[]
  lineage: ReturnType<typeof lineageOf>
  history: StagePeriod[]
}

/** A version with where it came from and every stage it had. */
export function getVersionDetails(ctx: TenantCtx, name: string, version: string): Promise<VersionDetails> {
  return read(ctx, async (tx) => {
    const row = await loadVersion(tx, ctx, name, version)
    const [listed] = await withExtras(tx, ctx, [row])
    const files = await versionFiles(tx, ctx, row)
    const run = row.runId ? await findTrackerRunSummary(tx, ctx, row.runId) : null
    const sizeBytes = files.reduce((sum, file) => sum + file.size, 0)
    return {
      version: { ...listed!, files: files.length, sizeBytes },
      source: versionSource(ctx, row),
      files,
      lineage: lineageOf(row, run),
      history: await stagePeriods(tx, ctx, row),
    }
  })
}

function lineageOf(row: VersionRow, run: TrackerRunSummary | null) {
  const tag = (key: string) => run?.tags.find((entry) => entry.key === key)?.value ?? null
  return {
    dataset: row.dataset,
    experiment: run && {
      id: String(run.run.experimentId),
      name: run.experimentName,
      run_id: run.run.runId,
      run_name: run.run.name,
      status: run.run.status,
      params: run.params,
    },
    code: {
      source: tag('mlflow.source.name'),
      commit: tag('mlflow.source.git.commit'),
      repository: tag('mlflow.source.git.repoURL'),
      branch: tag('mlflow.source.git.branch'),
      entry_point: tag('mlflow.project.entryPoint'),
    },
    environment: row.environment,
  }
}

async function stagePeriods(tx: Tx, ctx: TenantCtx, row: VersionRow): Promise<StagePeriod[]> {
  const changes = await findStageChanges(tx, ctx.tenant.id, row.modelId, row.version)
  return changes.map((change: StageChange, place) => ({
    stage: change.toStage as Stage,
    from: change.at,
    to: changes[place + 1]?.at ?? null,
    actor: change.actor,
    reason: change.reason,
    promotionId: change.promotionId,
  }))
}
