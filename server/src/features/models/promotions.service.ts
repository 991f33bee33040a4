import { audited } from '../../platform/audit.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict, forbidden, notFound } from '../../platform/errors.ts'
import { isUuid } from '../../platform/ids.ts'
import { transaction } from '../../platform/transaction.ts'
import { hasFeature } from '../tenants/tenants.api.ts'
import { loadVersion, lockVersion } from './models.service.ts'
import { type GatePlace, type PromotionGate, promotionGates } from './promotion-gates.ts'
import { tellDeciders, tellRequester } from './promotion-notices.ts'
import {
  findPromotion,
  insertPromotion,
  listPromotions,
  markExpired,
  type PromotionChange,
  type PromotionFilter,
  type PromotionRow,
  updatePromotion,
} from './promotions.store.ts'
import { changeStage } from './stage-changes.ts'
import { findVersion, findVersionsInStage, type VersionRow } from './versions.store.ts'

const lifetimeMs = 14 * 86_400_000

/** A request with what the platform can say about the version it is for. */
export type ShownPromotion = Omit<PromotionRow, 'gates'> & { gates: PromotionGate[] }

export interface PromotionRequest {
  to_version: string
  reason: string
  rollback_conditions?: string | null
  scope?: string | null
}

/** Asks for a version to become the one in Production. @source service §3.2, contract B12.5 */
export function requestPromotion(
  ctx: TenantCtx,
  name: string,
  version: string,
  request: PromotionRequest,
): Promise<ShownPromotion> {
  audited(ctx, `${name}/${request.to_version}`, { reason: request.reason })
  return promoting(ctx, async (tx) => {
    const from = await lockVersion(tx, ctx, name, version)
    const to = await loadVersion(tx, ctx, name, request.to_version)
    if (to.stage === 'Production') throw conflict('This version is in Production already.')
    const createdAt = ctx.clock.now()
    const id = await insertPromotion(tx, ctx.tenant.id, {
      modelId: to.modelId,
      fromVersion: from.version,
      toVersion: to.version,
      reason: request.reason,
      rollbackConditions: request.rollback_conditions ?? null,
      scope: request.scope ?? null,
      requestedById: ctx.actor.userId,
      requestedBy: ctx.actor.email,
      createdAt,
      expiresAt: new Date(createdAt.getTime() + lifetimeMs),
    })
    if (!id) throw conflict('Another promotion of this model waits for a decision.', { detail: { reason: 'pending' } })
    await tellDeciders(tx, ctx.tenant.id, await loadPromotion(tx, ctx, id))
    return shown(tx, ctx, id)
  })
}

/** The former Production is archived and the new one takes its place, at once. @source contract PR-38 */
export function approvePromotion(ctx: TenantCtx, id: string, comment: string | null): Promise<ShownPromotion> {
  return promoting(ctx, async (tx) => {
    const { promotion, to } = await lockPromotion(tx, ctx, id, 'PENDING')
    if (promotion.requestedById === ctx.actor.userId && !(await hasFeature(tx, ctx.tenant.id, 'self_approval'))) {
      throw forbidden('Somebody else has to approve what you requested.')
    }
    const former = await findVersionsInStage(tx, ctx.tenant.id, promotion.modelId, 'Production')
    const replaced = former.filter((row) => row.version !== to.version)
    const why = { promotionId: id, reason: promotion.reason }
    for (const row of replaced) await changeStage(tx, ctx, row, 'Archived', why)
    await changeStage(tx, ctx, to, 'Production', why)
    await updatePromotion(tx, ctx.tenant.id, id, { replacedVersions: replaced.map((row) => row.version) })
    return decide(tx, ctx, id, 'APPROVED', comment)
  })
}

/** @source contract PR-39 */
export function rejectPromotion(ctx: TenantCtx, id: string, reason: string): Promise<ShownPromotion> {
  return promoting(ctx, async (tx) => {
    await lockPromotion(tx, ctx, id, 'PENDING')
    return decide(tx, ctx, id, 'REJECTED', reason)
  })
}

/** By the one who asked, or whoever could approve. @source contract PR-40 */
export function cancelPromotion(ctx: TenantCtx, id: string): Promise<ShownPromotion> {
  return promoting(ctx, async (tx) => {
    const { requestedById } = await loadPromotion(tx, ctx, id)
    if (requestedById !== ctx.actor.userId && !ctx.permissions.has('PRODUCTION_PROMOTE')) {
      throw forbidden('Only who requested it, or who may approve it, can cancel a promotion.')
    }
    await lockPromotion(tx, ctx, id, 'PENDING')
    return decide(tx, ctx, id, 'CANCELED', null)
  })
}

/** Puts back what was in Production before. @source contract PR-41 */
export function rollBackPromotion(ctx: TenantCtx, id: string, reason: string): Promise<ShownPromotion> {
  return promoting(ctx, async (tx) => {
    const { promotion, to } = await lockPromotion(tx, ctx, id, 'APPROVED')
    if (to.stage !== 'Production') {
      throw conflict('The version this promotion put there is not in Production any more.', {
        detail: { reason: 'superseded', stage: to.stage },
      })
    }
    const former = await formerVersions(tx, ctx, promotion)
    const why = { promotionId: id, reason }
    await changeStage(tx, ctx, to, 'Archived', why)
    for (const row of former) await changeStage(tx, ctx, row, 'Production', why)
    const rolledBackAt = ctx.clock.now()
    const rolledBack = { rolledBackBy: ctx.actor.email, rollbackReason: reason, rolledBackAt }
    return settle(tx, ctx, id, { status: 'ROLLED_BACK', ...rolledBack })
  })
}

async function formerVersions(tx: Tx, ctx: TenantCtx, promotion: PromotionRow): Promise<VersionRow[]> {
  const { modelName, replacedVersions } = promotion
  if (replacedVersions.length === 0) {
    throw conflict('Nothing was in Production before; archive the version instead.', {
      detail: { reason: 'no_former' },
    })
  }
  const rows = await Promise.all(replacedVersions.map((v) => findVersion(tx, ctx.tenant.id, modelName, v)))
  const there = rows.flatMap((row) => row ?? [])
  if (there.length < replacedVersions.length) {
    throw conflict('What was in Production before is deleted.', { detail: { reason: 'former_deleted' } })
  }
  return there
}

export function getPromotion(ctx: TenantCtx, id: string): Promise<ShownPromotion> {
  return promoting(ctx, (tx) => shown(tx, ctx, id))
}

export function searchPromotions(
  ctx: TenantCtx,
  filter: PromotionFilter,
): Promise<{ items: ShownPromotion[]; total: number }> {
  return promoting(ctx, async (tx) => {
    const { items, total } = await listPromotions(tx, ctx.tenant.id, filter)
    const withGates: ShownPromotion[] = []
    for (const row of items) withGates.push(await withGatesOf(tx, ctx, row))
    return { items: withGates, total }
  })
}

/** Every use case first ends the requests whose time is over, so that nobody ever sees or decides one. */
function promoting<T>(ctx: TenantCtx, work: (tx: Tx) => Promise<T>): Promise<T> {
  return transaction(ctx, async (tx) => {
    await expirePromotions(tx, ctx, ctx.clock.now())
    return work(tx)
  })
}

/** Ends the requests of a tenant whose time is over, and tells who asked. */
export async function expirePromotions(tx: Tx, place: GatePlace, now: Date): Promise<void> {
  const { id: tenantId } = place.tenant
  for (const promotion of await markExpired(tx, tenantId, now)) {
    await updatePromotion(tx, tenantId, promotion.id, { gates: await promotionGates(tx, place, promotion) })
    await tellRequester(tx, tenantId, promotion, null)
  }
}

async function loadPromotion(tx: Tx, ctx: TenantCtx, id: string): Promise<PromotionRow> {
  const promotion = isUuid(id) ? await findPromotion(tx, ctx.tenant.id, id) : null
  if (!promotion) throw notFound('There is no such promotion.')
  return promotion
}

/** The promotion in the status it must have, its model held. */
async function lockPromotion(
  tx: Tx,
  ctx: TenantCtx,
  id: string,
  status: 'PENDING' | 'APPROVED',
): Promise<{ promotion: PromotionRow; to: VersionRow }> {
  const { modelName, toVersion } = await loadPromotion(tx, ctx, id)
  const to = await lockVersion(tx, ctx, modelName, String(toVersion)).catch((error) => {
    throw conflict('The version this promotion is for is deleted.', { cause: error })
  })
  // Somebody may have decided while the model was held.
  const promotion = await loadPromotion(tx, ctx, id)
  audited(ctx, `${modelName}/${toVersion}`, { promotion_id: id })
  if (promotion.status !== status) {
    throw conflict(`This promotion is ${promotion.status}.`, { detail: { status: promotion.status } })
  }
  return { promotion, to }
}

/** What the one who decides goes by stays with the request, whatever becomes of the version. */
async function decide(
  tx: Tx,
  ctx: TenantCtx,
  id: string,
  status: 'APPROVED' | 'REJECTED' | 'CANCELED',
  comment: string | null,
): Promise<ShownPromotion> {
  const gates = await promotionGates(tx, ctx, await loadPromotion(tx, ctx, id))
  const decision = { decidedBy: ctx.actor.email, decisionComment: comment, decidedAt: ctx.clock.now(), gates }
  return settle(tx, ctx, id, { status, ...decision })
}

/** Gives a promotion its new status, which is news to who asked. */
async function settle(tx: Tx, ctx: TenantCtx, id: string, change: PromotionChange): Promise<ShownPromotion> {
  await updatePromotion(tx, ctx.tenant.id, id, change)
  await tellRequester(tx, ctx.tenant.id, await loadPromotion(tx, ctx, id), ctx.actor.userId)
  return shown(tx, ctx, id)
}

async function shown(tx: Tx, ctx: TenantCtx, id: string): Promise<ShownPromotion> {
  return withGatesOf(tx, ctx, await loadPromotion(tx, ctx, id))
}

/** As of now while it waits, afterwards as they were; of decisions older than that was kept nothing is known. */
async function withGatesOf(tx: Tx, ctx: TenantCtx, row: PromotionRow): Promise<ShownPromotion> {
  return { ...row, gates: row.gates ?? (row.status === 'PENDING' ? await promotionGates(tx, ctx, row) : []) }
}
