import type { AliasedModel, RegistryVersion } from '../../models/registry.api.ts'
import { tagList } from './mlflow.present.ts'

export const versionView = (version: RegistryVersion) => ({
  name: version.name,
  version: String(version.version),
  creation_timestamp: version.createdAt.getTime(),
  last_updated_timestamp: version.updatedAt.getTime(),
  user_id: version.createdBy,
  current_stage: version.stage,
  description: version.description,
  source: version.source ?? version.filesUri,
  ...(version.runId === null ? {} : { run_id: version.runId }),
  run_link: version.runLink,
  status: 'READY',
  tags: tagList(version.tags),
  aliases: version.aliases,
  ...(version.loggedModelId === null ? {} : { model_id: version.loggedModelId }),
})

export const modelView = (model: AliasedModel, latest: RegistryVersion[]) => ({
  name: model.name,
  creation_timestamp: model.createdAt.getTime(),
  last_updated_timestamp: model.updatedAt.getTime(),
  description: model.description,
  latest_versions: latest.filter((version) => version.modelId === model.id).map(versionView),
  tags: tagList(model.tags),
  aliases: Object.entries(model.aliases).map(([alias, version]) => ({ alias, version: String(version) })),
})
