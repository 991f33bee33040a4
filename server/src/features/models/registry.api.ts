import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict, notFound } from '../../platform/errors.ts'
import { isVersion } from './models.api.ts'
import { dropModel, dropVersion, keepingWhatIsUsed, loadModel, lockVersion } from './models.service.ts'
import { type Stage, stageNamed, stages } from './models.stages.ts'
import { changeModelTag, type ModelRow, updateModel } from './models.store.ts'
import { addVersion, createModel, nameFault } from './registration.ts'
import { type AliasedModel, deleteAlias, findAliasedModel, searchModels, setAlias } from './registry-models.store.ts'
import {
  type AliasedVersion,
  findAliasedVersion,
  findLatestVersions,
  type RegistrySearch,
  searchVersions,
  updateVersion,
} from './registry-versions.store.ts'
import { changeStage } from './stage-changes.ts'
import { versionFiles, versionSource } from './version-files.ts'
import { findFiles, findVersionsInStage, type NewVersion, type VersionFile } from './versions.store.ts'

/** The registry as another protocol needs it: the same rows, the same guards, the same history. @source contract B10.10 */
export type { AliasedModel, AliasedVersion, ModelRow, RegistrySearch, Stage }

type Ctx = TenantCtx

/** A version, where a client is told its files come from, and where they lie. */
export type RegistryVersion = AliasedVersion & { filesUri: string }

const withUri = (ctx: Ctx, row: AliasedVersion): RegistryVersion => ({ ...row, filesUri: versionSource(ctx, row) })

/** Says why a model cannot be named so, or null. */
export const registryNameFault = (name: string): string | null => nameFault(name)

/** Null when the name is taken. */
export const createRegistryModel = async (
  tx: Tx,
  ctx: Ctx,
  model: { name: string; description: string; tags: Record<string, string> },
): Promise<AliasedModel | null> => {
  const made = await createModel(tx, ctx, model)
  return made && { ...made, aliases: {} }
}

/** Throws `not_found`. */
export async function findRegistryModel(tx: Tx, ctx: Ctx, name: string): Promise<AliasedModel> {
  const model = await findAliasedModel(tx, ctx.tenant.id, name)
  if (!model) throw notFound(`Registered Model with name=${name} not found`)
  return model
}

export const searchRegistryModels = (tx: Tx, ctx: Ctx, search: RegistrySearch) =>
  searchModels(tx, ctx.tenant.id, search)

/** Throws PostgreSQL's 23505 when the new name is taken. */
export const updateRegistryModel = (
  tx: Tx,
  ctx: Ctx,
  modelId: string,
  change: { name?: string; description?: string },
): Promise<void> => updateModel(tx, ctx.tenant.id, modelId, change)

/** A value of null removes the tag. */
export const tagRegistryModel = (tx: Tx, ctx: Ctx, modelId: string, key: string, value: string | null): Promise<void> =>
  changeModelTag(tx, ctx.tenant.id, modelId, key, value)

/** With all versions. Throws `conflict` when one of them has to stay. */
export const deleteRegistryModel = (tx: Tx, ctx: Ctx, name: string): Promise<void> =>
  keepingWhatIsUsed(() => dropModel(tx, ctx, name))

/** Points an alias to a version, away from where it pointed. */
export const setRegistryAlias = (tx: Tx, ctx: Ctx, version: RegistryVersion, alias: string): Promise<void> =>
  setAlias(tx, ctx.tenant.id, version.modelId, alias, version.version)

export const deleteRegistryAlias = (tx: Tx, ctx: Ctx, modelId: string, alias: string): Promise<void> =>
  deleteAlias(tx, ctx.tenant.id, modelId, alias)

/** The newest version of each stage. */
export async function findLatestOf(
  tx: Tx,
  ctx: Ctx,
  modelIds: string[],
  wanted: readonly Stage[] = stages,
): Promise<RegistryVersion[]> {
  const rows = await findLatestVersions(tx, ctx.tenant.id, modelIds, wanted)
  return rows.map((row) => withUri(ctx, row))
}

/** Throws `not_found`. */
export async function findRegistryVersion(tx: Tx, ctx: Ctx, name: string, version: string): Promise<RegistryVersion> {
  const row = isVersion(version) ? await findAliasedVersion(tx, ctx.tenant.id, name, Number(version)) : null
  if (!row) throw notFound(`Model Version (name=${name}, version=${version}) not found`)
  return withUri(ctx, row)
}

export async function searchRegistryVersions(tx: Tx, ctx: Ctx, search: RegistrySearch) {
  const page = await searchVersions(tx, ctx.tenant.id, search)
  return { ...page, items: page.items.map((row) => withUri(ctx, row)) }
}

/** Adds a version with what lies at its source now. */
export async function createRegistryVersion(
  tx: Tx,
  ctx: Ctx,
  name: string,
  version: Omit<NewVersion, 'modelId' | 'version' | 'createdBy'>,
  files: VersionFile[],
): Promise<RegistryVersion> {
  const model = await loadModel(tx, ctx, name)
  const number = await addVersion(tx, ctx, model, version, files)
  return findRegistryVersion(tx, ctx, name, String(number))
}

export const updateRegistryVersion = (
  tx: Tx,
  ctx: Ctx,
  version: RegistryVersion,
  change: { description?: string; tags?: Record<string, string>; removedTag?: string },
): Promise<void> => updateVersion(tx, ctx.tenant.id, version, change)

/** Throws `conflict` when it has to stay. */
export const deleteRegistryVersion = (tx: Tx, ctx: Ctx, name: string, version: string): Promise<void> =>
  keepingWhatIsUsed(async () => {
    const row = await lockVersion(tx, ctx, name, version)
    if (row.stage === 'Production') throw conflict('It is in Production; archive it or promote another version first.')
    await dropVersion(tx, ctx, row)
  })

/** Gives a version any stage; if asked, those that had it are archived. */
export async function transitionRegistryVersion(
  tx: Tx,
  ctx: Ctx,
  { name, version }: { name: string; version: string },
  stage: Stage,
  archiveOthers: boolean,
): Promise<RegistryVersion> {
  const row = await lockVersion(tx, ctx, name, version)
  const others = archiveOthers ? await findVersionsInStage(tx, ctx.tenant.id, row.modelId, stage) : []
  for (const other of others) {
    const reason = `version ${row.version} took its place`
    if (other.version !== row.version) await changeStage(tx, ctx, other, 'Archived', { reason })
  }
  await changeStage(tx, ctx, row, stage)
  return findRegistryVersion(tx, ctx, name, version)
}

/** Files of a version by the id of its model; none for one that is not there. */
export const findRegistryFiles = (
  tx: Tx,
  ctx: Ctx,
  { modelId, version }: { modelId: string; version: number },
): Promise<VersionFile[]> => findFiles(tx, ctx.tenant.id, modelId, version)

/** Files of a version, wherever they lie. */
export const filesOfVersion = (tx: Tx, ctx: Ctx, version: RegistryVersion): Promise<VersionFile[]> =>
  versionFiles(tx, ctx, version)

/** The stage written in any case, or null. */
export const registryStage = (text: string): Stage | null => stageNamed(text)
