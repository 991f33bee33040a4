import type { Tx } from '../../platform/db/transaction.ts'
import { listHolders } from '../members/members.api.ts'
import { notify } from '../notifications/notifications.api.ts'
import type { PromotionRow } from './promotions.store.ts'

export const promotionGroup = { name: 'promotions', title: 'Promotions' }

const subjectOf = ({ modelName, toVersion }: PromotionRow) => `${modelName} version ${toVersion}`

const messageOf = (promotion: PromotionRow, title: string, body: string | null) => ({
  group: promotionGroup.name,
  title,
  body,
  link: `/promotions/${promotion.id}`,
  dedupeKey: `promotion:${promotion.id}:${promotion.status}`,
})

/** Everybody who could decide it learns of a request, but not who made it. */
export async function tellDeciders(tx: Tx, tenantId: string, promotion: PromotionRow): Promise<void> {
  const deciders = await listHolders(tx, tenantId, 'PRODUCTION_PROMOTE')
  const userIds = deciders.filter((userId) => userId !== promotion.requestedById)
  const title = `${promotion.requestedBy} asks to promote ${subjectOf(promotion)} to Production`
  await notify(tx, { tenantId, to: { userIds }, ...messageOf(promotion, title, promotion.reason) })
}

const outcomes: Record<Exclude<PromotionRow['status'], 'PENDING'>, string> = {
  APPROVED: 'is in Production',
  REJECTED: 'is not promoted: the request was rejected',
  CANCELED: 'is not promoted: the request was canceled',
  EXPIRED: 'is not promoted: nobody decided the request in time',
  ROLLED_BACK: 'is not in Production any more: its promotion was rolled back',
}

/** Who asked learns what became of it, unless by their own hand. */
export async function tellRequester(
  tx: Tx,
  tenantId: string,
  promotion: PromotionRow,
  actorId: string | null,
): Promise<void> {
  const { requestedById, status } = promotion
  if (!requestedById || requestedById === actorId || status === 'PENDING') return
  const title = `${subjectOf(promotion)} ${outcomes[status]}`
  const body = status === 'ROLLED_BACK' ? promotion.rollbackReason : promotion.decisionComment
  await notify(tx, { tenantId, to: { userIds: [requestedById] }, ...messageOf(promotion, title, body) })
}
