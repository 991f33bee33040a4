import type { Tx } from '../../platform/db/transaction.ts'
import { notFound } from '../../platform/errors.ts'
import { findModel } from './models.store.ts'
import { addVersion, ensureModel, nameFault } from './registration.ts'
import type { ModelsCtx } from './stage-changes.ts'
import { findFiles, findVersion, findVersionsInStage, type VersionFile, type VersionRow } from './versions.store.ts'

export type { ModelsCtx, VersionFile }

export interface NewModelVersion {
  /** In any case; the model is made when there is none. */
  name: string
  /** Of the version. */
  description?: string
  /** 32 hexadecimal digits. */
  runId: string
  experimentId: string
  dataset: { id: string; name: string; digest: string }
  /** Blobs; paths relative to the version. */
  files: VersionFile[]
  task: string
  framework: string
  architecture: string
  classes: string[]
  signature: unknown
  metrics: Record<string, number>
  environment: Record<string, string>
}

/** A version as other features see it. */
export interface ModelVersion extends Omit<VersionRow, 'version' | 'experimentId'> {
  /** A counting number as text. */
  version: string
  experimentId: string | null
  files: VersionFile[]
}

/** Says why a model cannot be named so, or null; for those who register later what they name now. */
export const modelNameFault = (name: string): string | null => nameFault(name)

/** Registers files that the platform made as the next version of a model, in stage None. */
export async function registerModelVersion(
  tx: Tx,
  ctx: ModelsCtx,
  version: NewModelVersion,
): Promise<{ modelId: string; name: string; version: string }> {
  const { name, files, experimentId, ...rest } = version
  const model = await ensureModel(tx, ctx, { name })
  const number = await addVersion(tx, ctx, model, { ...rest, experimentId: Number(experimentId) }, files)
  return { modelId: model.id, name: model.name, version: String(number) }
}

/** The model's name is taken in any case and given back as it is written. Throws `not_found`. */
export async function getModelVersion(tx: Tx, ctx: ModelsCtx, name: string, version: string): Promise<ModelVersion> {
  const row = isVersion(version) ? await findVersion(tx, ctx.tenant.id, name, Number(version)) : null
  if (!row) throw notFound('There is no such version of this model.')
  return withFiles(tx, ctx, row)
}

/** The version that reached Production last, or null; `not_found` when there is no such model. */
export async function findProductionVersion(tx: Tx, ctx: ModelsCtx, name: string): Promise<ModelVersion | null> {
  const model = await findModel(tx, ctx.tenant.id, name)
  if (!model) throw notFound('There is no such model.')
  const [row] = await findVersionsInStage(tx, ctx.tenant.id, model.id, 'Production')
  return row ? withFiles(tx, ctx, row) : null
}

async function withFiles(tx: Tx, ctx: ModelsCtx, row: VersionRow): Promise<ModelVersion> {
  const files = await findFiles(tx, ctx.tenant.id, row.modelId, row.version)
  const experimentId = row.experimentId === null ? null : String(row.experimentId)
  return { ...row, version: String(row.version), experimentId, files }
}

/** Whether the text is a version number that PostgreSQL's integer holds. */
export const isVersion = (text: string): boolean => /^[1-9]\d{0,8}$/.test(text)
