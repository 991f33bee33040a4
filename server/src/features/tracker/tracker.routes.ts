import { Type } from 'typebox'
import type { TenantCtx } from '../../platform/context.ts'
import { tenant } from '../../platform/http/access.ts'
import { Answer } from '../../platform/http/answer.ts'
import { listView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { uuid } from '../../platform/schema.ts'
import type { TokenRow } from './tokens.store.ts'
import * as schema from './tracker.schema.ts'
import { createToken, endToken, listOwnTokens } from './tracker-tokens.ts'
import { protocolVersion, trackingUri } from './tracking-uri.ts'

const tokenView = (row: TokenRow) => ({
  id: row.id,
  name: row.name,
  created_at: row.createdAt.toISOString(),
  last_used_at: row.lastUsedAt?.toISOString() ?? null,
  expires_at: row.expiresAt?.toISOString() ?? null,
  revoked_at: row.revokedAt?.toISOString() ?? null,
})

/** @source contract PR-42 to PR-45 */
export const trackerRoutes: Operation[] = [
  operation({
    id: 'tracker.listTokens',
    method: 'GET',
    path: '/api/v1/tracker/tokens',
    summary: 'Your own tracker tokens in this tenant, newest first.',
    access: tenant('VIEW'),
    responses: { 200: schema.TokenList },
    handler: async (ctx) => listView((await listOwnTokens(ctx)).map(tokenView)),
  }),
  operation({
    id: 'tracker.createToken',
    method: 'POST',
    path: '/api/v1/tracker/tokens',
    summary: 'Make a token that lets MLflow clients into this tenant with your rights.',
    access: tenant('DEVELOP'),
    audit: 'tracker.create_token',
    body: schema.TokenCreate,
    responses: { 201: schema.TokenCreated },
    handler: async (ctx: TenantCtx, { body }) => {
      const wanted = { name: body.name ?? '', expiresInDays: body.expires_in_days ?? null }
      const { row, token } = await createToken(ctx, wanted)
      const view = { ...tokenView(row), token, tracking_uri: trackingUri(ctx) }
      return new Answer({ status: 201, headers: { 'cache-control': 'no-store' }, body: view })
    },
  }),
  operation({
    id: 'tracker.revokeToken',
    method: 'POST',
    path: '/api/v1/tracker/tokens/{token_id}:revoke',
    summary: 'End a token at once: your own, or with SETTINGS anybody’s.',
    access: tenant('VIEW'),
    audit: 'tracker.revoke_token',
    params: Type.Object({ token_id: uuid('Token.') }),
    responses: { 200: schema.TokenOut },
    handler: async (ctx, { params }) => tokenView(await endToken(ctx, params.token_id)),
  }),
  operation({
    id: 'tracker.getInfo',
    method: 'GET',
    path: '/api/v1/tracker/info',
    summary: 'How MLflow clients reach the tracker.',
    access: tenant('VIEW'),
    responses: { 200: schema.TrackerInfo },
    handler: async (ctx) => ({ tracking_uri: trackingUri(ctx), version: protocolVersion }),
  }),
]
