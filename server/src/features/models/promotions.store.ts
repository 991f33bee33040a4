import { sql } from 'kysely'
import { pageAndTotal } from '../../platform/db/pages.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'
import type { PromotionGate } from './promotion-gates.ts'

export const promotionStatuses = ['PENDING', 'APPROVED', 'REJECTED', 'CANCELED', 'EXPIRED', 'ROLLED_BACK'] as const
export type PromotionStatus = (typeof promotionStatuses)[number]

export interface PromotionRow {
  id: string
  modelId: string
  modelName: string
  fromVersion: number
  toVersion: number
  reason: string
  rollbackConditions: string | null
  scope: string | null
  status: PromotionStatus
  requestedById: string | null
  requestedBy: string
  decidedBy: string | null
  decisionComment: string | null
  replacedVersions: number[]
  createdAt: Date
  decidedAt: Date | null
  expiresAt: Date
  rolledBackBy: string | null
  rollbackReason: string | null
  rolledBackAt: Date | null
  /** As of the decision; null while the request waits. */
  gates: PromotionGate[] | null
}

const columns = [
  ...(['p.id', 'p.modelId', 'm.name as modelName', 'p.fromVersion', 'p.toVersion', 'p.reason'] as const),
  ...(['p.rollbackConditions', 'p.scope', 'p.status', 'p.requestedById', 'p.requestedBy', 'p.decidedBy'] as const),
  ...(['p.decisionComment', 'p.replacedVersions', 'p.createdAt', 'p.decidedAt', 'p.expiresAt'] as const),
  ...(['p.rolledBackBy', 'p.rollbackReason', 'p.rolledBackAt', 'p.gates'] as const),
] as const

const promotionsOf = (tx: Tx, tenantId: string) =>
  tx
    .selectFrom('modelPromotions as p')
    .innerJoin('models as m', (join) => join.onRef('m.tenantId', '=', 'p.tenantId').onRef('m.id', '=', 'p.modelId'))
    .where('p.tenantId', '=', tenantId)

export interface NewPromotion {
  modelId: string
  fromVersion: number
  toVersion: number
  reason: string
  rollbackConditions: string | null
  scope: string | null
  requestedById: string
  requestedBy: string
  createdAt: Date
  expiresAt: Date
}

/** Null while another request for the model waits. */
export async function insertPromotion(tx: Tx, tenantId: string, promotion: NewPromotion): Promise<string | null> {
  const row = await tx
    .insertInto('modelPromotions')
    .values({ id: newId(), tenantId, ...promotion })
    .onConflict((oc) => oc.columns(['tenantId', 'modelId']).where('status', '=', sql.lit('PENDING')).doNothing())
    .returning('id')
    .executeTakeFirst()
  return row?.id ?? null
}

export async function findPromotion(tx: Tx, tenantId: string, id: string): Promise<PromotionRow | null> {
  const row = await promotionsOf(tx, tenantId).select(columns).where('p.id', '=', id).executeTakeFirst()
  return (row as PromotionRow | undefined) ?? null
}

export interface PromotionFilter {
  status?: PromotionStatus
  model?: string
  page: number
  page_size: number
}

/** Newest first. */
export async function listPromotions(
  tx: Tx,
  tenantId: string,
  { status, model, page, page_size }: PromotionFilter,
): Promise<{ items: PromotionRow[]; total: number }> {
  let query = promotionsOf(tx, tenantId)
  if (status) query = query.where('p.status', '=', status)
  if (model) query = query.where(sql`lower(m.name)`, '=', model.toLowerCase())
  const items = query
    .select(columns)
    .orderBy('p.createdAt', 'desc')
    .orderBy('p.id', 'desc')
    .limit(page_size)
    .offset((page - 1) * page_size)
    .$castTo<PromotionRow>()
  return pageAndTotal(query, items)
}

export type PromotionChange = Partial<
  Pick<
    PromotionRow,
    | 'gates'
    | 'status'
    | 'decidedBy'
    | 'decisionComment'
    | 'decidedAt'
    | 'replacedVersions'
    | 'rolledBackBy'
    | 'rollbackReason'
    | 'rolledBackAt'
  >
>

export async function updatePromotion(tx: Tx, tenantId: string, id: string, change: PromotionChange): Promise<void> {
  const { gates, ...plain } = change
  const set = gates ? { ...plain, gates: JSON.stringify(gates) } : plain
  await tx.updateTable('modelPromotions').set(set).where('tenantId', '=', tenantId).where('id', '=', id).execute()
}

/** Ends requests that nobody decided in time; returns them. */
export async function markExpired(tx: Tx, tenantId: string, now: Date): Promise<PromotionRow[]> {
  const ended = await tx
    .updateTable('modelPromotions')
    .set({ status: 'EXPIRED', decidedAt: sql`expires_at` })
    .where('tenantId', '=', tenantId)
    .where('status', '=', 'PENDING')
    .where('expiresAt', '<=', now)
    .returning('id')
    .execute()
  const rows = await Promise.all(ended.map(({ id }) => findPromotion(tx, tenantId, id)))
  return rows.flatMap((row) => row ?? [])
}

/** Tenants in which a request waits although its time is over. */
export async function listExpired(tx: Tx, now: Date): Promise<string[]> {
  const rows = await tx
    .selectFrom('modelPromotions')
    .select('tenantId')
    .distinct()
    .where('status', '=', 'PENDING')
    .where('expiresAt', '<=', now)
    .execute()
  return rows.map((row) => row.tenantId)
}
