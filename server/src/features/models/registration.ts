import type { Tx } from '../../platform/db/transaction.ts'
import { invalid } from '../../platform/errors.ts'
import { findModel, insertModel, type ModelRow, type NewModel, takeVersionNumber } from './models.store.ts'
import { type ModelsCtx, recordStage } from './stage-changes.ts'
import { insertFiles, insertVersion, type NewVersion, type VersionFile } from './versions.store.ts'

const longestName = 256
/** A path segment of the API that no model can be named like. */
const reservedNames = new Set(['summary'])

/** Says what is wrong with a model's name, or null. @source contract B1.7, B10; addresses hold the name as one segment */
export function nameFault(name: string): string | null {
  if (name.trim() === '' || name !== name.trim()) return 'must not be empty, nor begin or end with a blank'
  if (name.length > longestName) return `must be at most ${longestName} characters long`
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
  if (/[/:\x00-\x1f\x7f]/.test(name) || name === '.' || name === '..') return 'must not contain / or : or be . or ..'
  return reservedNames.has(name.toLowerCase()) ? 'is a word of the API; choose another name' : null
}

/** Makes a model, or null when the name is taken in any case. Throws a 422 for a name that cannot be. */
export async function createModel(tx: Tx, ctx: ModelsCtx, model: NewModel): Promise<ModelRow | null> {
  const fault = nameFault(model.name)
  if (fault) throw invalid({ loc: ['body', 'name'], msg: fault, type: 'value_error', input: model.name })
  return insertModel(tx, ctx.tenant.id, model)
}

/** The model of that name, made when there is none. */
export async function ensureModel(tx: Tx, ctx: ModelsCtx, model: NewModel): Promise<ModelRow> {
  const known = (await findModel(tx, ctx.tenant.id, model.name)) ?? (await createModel(tx, ctx, model))
  // Somebody else made it in between.
  const found = known ?? (await findModel(tx, ctx.tenant.id, model.name))
  if (!found) throw new Error(`model ${model.name} could neither be made nor found`)
  return found
}

/** Adds a version with its files and the first row of its history; its number is its own, whoever registers beside. */
export async function addVersion(
  tx: Tx,
  ctx: ModelsCtx,
  model: ModelRow,
  version: Omit<NewVersion, 'modelId' | 'version' | 'createdBy'>,
  files: VersionFile[],
): Promise<number> {
  const number = await takeVersionNumber(tx, ctx.tenant.id, model.id)
  const key = { modelId: model.id, version: number }
  await insertVersion(tx, ctx.tenant.id, { ...version, ...key, createdBy: ctx.actor.email })
  await insertFiles(tx, ctx.tenant.id, key, files)
  await recordStage(tx, ctx, { ...key, name: model.name }, null, 'None')
  return number
}
