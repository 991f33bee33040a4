import { Type } from 'typebox'
import { tenant } from '../../platform/http/access.ts'
import { pageQuery, pageView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { uuid } from '../../platform/schema.ts'
import * as schema from './promotions.schema.ts'
import * as promotions from './promotions.service.ts'

const one = Type.Object({ promotion_id: uuid('Promotion.') })
const notPending = 'It is not PENDING any more (detail.status), or its version is deleted.'

const view = (row: promotions.ShownPromotion) => ({
  id: row.id,
  model: row.modelName,
  from_version: String(row.fromVersion),
  to_version: String(row.toVersion),
  status: row.status,
  reason: row.reason,
  rollback_conditions: row.rollbackConditions,
  scope: row.scope,
  requested_by: row.requestedBy,
  decided_by: row.decidedBy,
  decision_comment: row.decisionComment,
  replaced_versions: row.replacedVersions.map(String),
  gates: row.gates,
  created_at: row.createdAt.toISOString(),
  expires_at: row.expiresAt.toISOString(),
  decided_at: row.decidedAt?.toISOString() ?? null,
  rolled_back_by: row.rolledBackBy,
  rollback_reason: row.rollbackReason,
  rolled_back_at: row.rolledBackAt?.toISOString() ?? null,
})

/** @source contract MD-09, PR-36 to PR-41 */
export const promotionRoutes: Operation[] = [
  operation({
    id: 'models.promote',
    method: 'POST',
    path: '/api/v1/models/{name}/{version}/promote',
    summary: 'Request that a version becomes the one in Production.',
    access: tenant('PRODUCTION_PROMOTE'),
    audit: 'model.promote',
    body: schema.PromoteRequest,
    responses: { 201: schema.PromotionOut },
    errors: { 409: 'It is in Production already, or another request for the model waits.' },
    handler: async (ctx, { params, body }) =>
      view(await promotions.requestPromotion(ctx, params.name!, params.version!, body)),
  }),
  operation({
    id: 'promotions.list',
    method: 'GET',
    path: '/api/v1/promotions',
    summary: 'Promotion requests, newest first.',
    access: tenant('VIEW'),
    query: Type.Object({
      status: Type.Optional(schema.PromotionStatusName),
      model: Type.Optional(Type.String({ maxLength: 256, description: 'Name of a model, in any case.' })),
      ...pageQuery,
    }),
    responses: { 200: schema.PromotionPage },
    handler: async (ctx, { query }) => {
      const { items, total } = await promotions.searchPromotions(ctx, query)
      return pageView(query, { items: items.map(view), total })
    },
  }),
  operation({
    id: 'promotions.get',
    method: 'GET',
    path: '/api/v1/promotions/{promotion_id}',
    summary: 'One request with what the platform can say about its version.',
    access: tenant('VIEW'),
    params: one,
    responses: { 200: schema.PromotionOut },
    handler: async (ctx, { params }) => view(await promotions.getPromotion(ctx, params.promotion_id)),
  }),
  operation({
    id: 'promotions.approve',
    method: 'POST',
    path: '/api/v1/promotions/{promotion_id}:approve',
    summary: 'Approve and apply: the version becomes Production, the former one is archived.',
    access: tenant('PRODUCTION_PROMOTE'),
    audit: 'promotion.approve',
    params: one,
    body: schema.PromotionApproval,
    responses: { 200: schema.PromotionOut },
    errors: { 409: notPending },
    handler: async (ctx, { params, body }) =>
      view(await promotions.approvePromotion(ctx, params.promotion_id, body.comment ?? null)),
  }),
  operation({
    id: 'promotions.reject',
    method: 'POST',
    path: '/api/v1/promotions/{promotion_id}:reject',
    summary: 'Reject a request.',
    access: tenant('PRODUCTION_PROMOTE'),
    audit: 'promotion.reject',
    params: one,
    body: schema.PromotionReason,
    responses: { 200: schema.PromotionOut },
    errors: { 409: notPending },
    handler: async (ctx, { params, body }) =>
      view(await promotions.rejectPromotion(ctx, params.promotion_id, body.reason)),
  }),
  operation({
    id: 'promotions.cancel',
    method: 'POST',
    path: '/api/v1/promotions/{promotion_id}:cancel',
    summary: 'Cancel a request: your own, or with PRODUCTION_PROMOTE anybody’s.',
    access: tenant('VIEW'),
    audit: 'promotion.cancel',
    params: one,
    responses: { 200: schema.PromotionOut },
    errors: { 409: notPending },
    handler: async (ctx, { params }) => view(await promotions.cancelPromotion(ctx, params.promotion_id)),
  }),
  operation({
    id: 'promotions.rollback',
    method: 'POST',
    path: '/api/v1/promotions/{promotion_id}:rollback',
    summary: 'Put back what was in Production before an approved promotion.',
    access: tenant('PRODUCTION_PROMOTE'),
    audit: 'promotion.rollback',
    params: one,
    body: schema.PromotionReason,
    responses: { 200: schema.PromotionOut },
    errors: { 409: 'It is not APPROVED, was superseded, or nothing is left to go back to (detail.reason).' },
    handler: async (ctx, { params, body }) =>
      view(await promotions.rollBackPromotion(ctx, params.promotion_id, body.reason)),
  }),
]
