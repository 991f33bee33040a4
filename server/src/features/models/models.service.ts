import { audited } from '../../platform/audit.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { badRequest, conflict, invalid, notFound } from '../../platform/errors.ts'
import type { PageQuery } from '../../platform/http/lists.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { type CommentRow, insertComment, listComments } from './comments.store.ts'
import {
  countStages,
  findOverview,
  listOverviews,
  type ModelListQuery,
  type ModelOverview,
} from './model-lists.store.ts'
import { isVersion } from './models.api.ts'
import { directStages, type Stage, stageNamed } from './models.stages.ts'
import { deleteModel, findModel, lockModel, type ModelRow } from './models.store.ts'
import { changeStage, type ModelsCtx, recordStage } from './stage-changes.ts'
import { findExtras, type VersionExtras } from './version-lists.store.ts'
import { deleteVersion, findVersion, findVersionsInStage, listVersions, type VersionRow } from './versions.store.ts'

export const listModels = (ctx: TenantCtx, query: ModelListQuery) =>
  read(ctx, (tx) => listOverviews(tx, ctx.tenant.id, query))

export const countModels = (ctx: TenantCtx) => read(ctx, (tx) => countStages(tx, ctx.tenant.id))

export async function getModel(ctx: TenantCtx, name: string): Promise<ModelOverview> {
  const model = await read(ctx, (tx) => findOverview(tx, ctx.tenant.id, name))
  if (!model) throw noModel()
  return model
}

export type ListedVersion = VersionRow & Omit<VersionExtras, 'version'>

export function listModelVersions(
  ctx: TenantCtx,
  name: string,
  query: PageQuery,
): Promise<{ items: ListedVersion[]; total: number }> {
  return read(ctx, async (tx) => {
    const model = await loadModel(tx, ctx, name)
    const { items, total } = await listVersions(tx, ctx.tenant.id, model.id, query)
    return { items: await withExtras(tx, ctx, items), total }
  })
}

/** Versions of one model with their aliases and sizes. */
export async function withExtras(tx: Tx, ctx: ModelsCtx, versions: VersionRow[]): Promise<ListedVersion[]> {
  if (versions.length === 0) return []
  const { id } = ctx.tenant
  const numbers = versions.map((row) => row.version)
  const extras = await findExtras(tx, id, versions[0]!.modelId, numbers)
  return versions.map((row) => ({ ...row, ...extras.get(row.version)! }))
}

/** Throws `not_found`. */
export async function loadModel(tx: Tx, ctx: ModelsCtx, name: string): Promise<ModelRow> {
  const model = await findModel(tx, ctx.tenant.id, name)
  if (!model) throw noModel()
  return model
}

/** Throws `not_found`, also for what is no version number. */
export async function loadVersion(tx: Tx, ctx: ModelsCtx, name: string, version: string): Promise<VersionRow> {
  const row = isVersion(version) ? await findVersion(tx, ctx.tenant.id, name, Number(version)) : null
  if (!row) throw notFound('There is no such version of this model.')
  return row
}

/** The version with its model held, so that stages change one after the other. */
export async function lockVersion(tx: Tx, ctx: ModelsCtx, name: string, version: string): Promise<VersionRow> {
  if (!(await lockModel(tx, ctx.tenant.id, name))) throw noModel()
  return loadVersion(tx, ctx, name, version)
}

const noModel = () => notFound('There is no such model.')

/** Gives a version another stage than Production. @source service §3.2, contract B12.5 */
export function setVersionStage(
  ctx: TenantCtx,
  name: string,
  version: string,
  change: { stage: string; reason?: string | null },
): Promise<ListedVersion> {
  const stage = directStage(change.stage)
  audited(ctx, `${name}/${version}`, { stage })
  return transaction(ctx, async (tx) => {
    const row = await lockVersion(tx, ctx, name, version)
    await changeStage(tx, ctx, row, stage, { reason: change.reason ?? null })
    const [changed] = await withExtras(tx, ctx, [await loadVersion(tx, ctx, name, version)])
    return changed!
  })
}

function directStage(text: string): Stage {
  const stage = stageNamed(text)
  if (stage === 'Production') {
    throw badRequest('A version reaches Production through a promotion request.', {
      detail: { allowed: directStages },
    })
  }
  if (!stage) {
    const msg = `must be one of ${directStages.join(', ')}`
    throw invalid({ loc: ['body', 'stage'], msg, type: 'enum', input: text })
  }
  return stage
}

/** A version in Production, or one that an endpoint or image stands on, stays. @source contract B12.5 */
export async function removeVersion(ctx: TenantCtx, name: string, version: string): Promise<void> {
  audited(ctx, `${name}/${version}`)
  await keepingWhatIsUsed(() =>
    transaction(ctx, async (tx) => {
      const row = await lockVersion(tx, ctx, name, version)
      if (row.stage === 'Production') throw inProduction()
      await dropVersion(tx, ctx, row)
    }),
  )
}

/** Removes a version and ends its history. */
export async function dropVersion(tx: Tx, ctx: ModelsCtx, row: VersionRow): Promise<void> {
  await recordStage(tx, ctx, row, row.stage, 'Deleted')
  await deleteVersion(tx, ctx.tenant.id, row.modelId, row.version)
}

/** Removes a model with all its versions, unless one of them has to stay. */
export async function removeModel(ctx: TenantCtx, name: string): Promise<void> {
  audited(ctx, name)
  await keepingWhatIsUsed(() => transaction(ctx, (tx) => dropModel(tx, ctx, name)))
}

/** Throws `not_found`, and `conflict` while a version is in Production. */
export async function dropModel(tx: Tx, ctx: ModelsCtx, name: string): Promise<void> {
  const { id: tenantId } = ctx.tenant
  const model = await lockModel(tx, tenantId, name)
  if (!model) throw noModel()
  if ((await findVersionsInStage(tx, tenantId, model.id, 'Production')).length > 0) throw inProduction()
  const everything = { page: 1, page_size: 1_000_000 }
  const { items } = await listVersions(tx, tenantId, model.id, everything)
  for (const row of items) await recordStage(tx, ctx, row, row.stage, 'Deleted')
  await deleteModel(tx, tenantId, model.id)
}

const inProduction = () => conflict('It is in Production; archive it or promote another version first.')

/** Foreign keys guard versions that endpoints or images stand on. Throws `conflict`. */
export async function keepingWhatIsUsed<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const { code } = error as { code?: string }
    // foreign_key_violation, and restrict_violation from PostgreSQL 18 on.
    if (code !== '23503' && code !== '23001') throw error
    throw conflict('An endpoint or an image stands on this version; delete that first.', { cause: error })
  }
}

export function listVersionComments(ctx: TenantCtx, name: string, version: string): Promise<CommentRow[]> {
  return read(ctx, async (tx) => {
    const row = await loadVersion(tx, ctx, name, version)
    return listComments(tx, ctx.tenant.id, row.modelId, row.version)
  })
}

export function addComment(ctx: TenantCtx, name: string, version: string, body: string): Promise<CommentRow> {
  audited(ctx, `${name}/${version}`)
  return transaction(ctx, async (tx) => {
    const { modelId, version: number } = await loadVersion(tx, ctx, name, version)
    const comment = { modelId, version: number, author: ctx.actor.email, body, createdAt: ctx.clock.now() }
    return insertComment(tx, ctx.tenant.id, comment)
  })
}
