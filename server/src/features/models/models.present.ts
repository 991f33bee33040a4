import type { CommentRow } from './comments.store.ts'
import type { ModelOverview } from './model-lists.store.ts'
import type { ListedVersion } from './models.service.ts'
import type { Stage } from './models.stages.ts'
import type { VersionDetails } from './version-details.ts'

export const modelView = (model: ModelOverview) => ({
  name: model.name,
  description: model.description,
  tags: model.tags,
  versions: model.versions,
  latest_version: model.latestVersion === null ? null : String(model.latestVersion),
  stages: {
    none: stageCell(model, 'None'),
    staging: stageCell(model, 'Staging'),
    production: stageCell(model, 'Production'),
    archived: stageCell(model, 'Archived'),
  },
  aliases: Object.fromEntries(Object.entries(model.aliases).map(([alias, version]) => [alias, String(version)])),
  created_at: model.createdAt.toISOString(),
  updated_at: model.updatedAt.toISOString(),
})

function stageCell(model: ModelOverview, stage: Stage) {
  const cell = model.stages[stage]
  return cell ? { count: cell.count, latest_version: String(cell.latest) } : null
}

export const summaryView = ({ stages, models }: { stages: Partial<Record<Stage, number>>; models: number }) => ({
  models,
  production: stages.Production ?? 0,
  staging: stages.Staging ?? 0,
  archived: stages.Archived ?? 0,
  none: stages.None ?? 0,
})

export const versionView = (row: ListedVersion) => ({
  name: row.name,
  version: String(row.version),
  stage: row.stage,
  stage_since: row.stageAt.toISOString(),
  description: row.description,
  aliases: row.aliases,
  tags: row.tags,
  task: row.task,
  framework: row.framework,
  architecture: row.architecture,
  classes: row.classes,
  metrics: row.metrics,
  run_id: row.runId,
  experiment_id: row.experimentId === null ? null : String(row.experimentId),
  dataset: row.dataset,
  files: row.files,
  size_bytes: row.sizeBytes,
  created_by: row.createdBy,
  created_at: row.createdAt.toISOString(),
  updated_at: row.updatedAt.toISOString(),
})

export const versionDetailView = (details: VersionDetails) => ({
  ...versionView(details.version),
  signature: details.version.signature ?? null,
  source: details.source,
  file_list: details.files.map(({ path, size, digest }) => ({ path, size, digest })),
  lineage: details.lineage,
  history: details.history.map((period) => ({
    stage: period.stage,
    from: period.from.toISOString(),
    to: period.to?.toISOString() ?? null,
    actor: period.actor,
    reason: period.reason,
    promotion_id: period.promotionId,
  })),
})

export const commentView = (comment: CommentRow) => ({
  id: comment.id,
  version: String(comment.version),
  author: comment.author,
  body: comment.body,
  created_at: comment.createdAt.toISOString(),
})
