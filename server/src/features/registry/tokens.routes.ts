import { Type } from 'typebox'
import { tenant } from '../../platform/http/access.ts'
import { listView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { uuid } from '../../platform/schema.ts'
import { createdTokenView, tokenView } from './tokens.present.ts'
import { RegistryToken, RegistryTokenList, TokenCreate, TokenCreated } from './tokens.schema.ts'
import { createRegistryToken, listRegistryTokens, revokeRegistryToken } from './tokens.service.ts'

/** @source service §2.7, §4.11, contract RG-02 to RG-04 */
export const tokenRoutes: Operation[] = [
  operation({
    id: 'registry.listTokens',
    method: 'GET',
    path: '/api/v1/registry/tokens',
    summary: 'Registry tokens, without their secrets: one’s own, or all of the tenant for who may change its settings.',
    access: tenant('VIEW'),
    responses: { 200: RegistryTokenList },
    handler: async (ctx) => {
      const now = ctx.clock.now()
      return listView((await listRegistryTokens(ctx)).map((token) => tokenView(token, now)))
    },
  }),
  operation({
    id: 'registry.createToken',
    method: 'POST',
    path: '/api/v1/registry/tokens',
    summary: 'Make a token for this tenant, to sign in to the container registry with. The secret is shown once.',
    access: tenant('VIEW'),
    audit: 'registry.token.create',
    body: TokenCreate,
    responses: { 201: TokenCreated },
    handler: async (ctx, { body }) => createdTokenView(await createRegistryToken(ctx, body)),
  }),
  operation({
    id: 'registry.revokeToken',
    method: 'POST',
    path: '/api/v1/registry/tokens/{token_id}:revoke',
    summary: 'Block a token at once.',
    access: tenant('VIEW'),
    audit: 'registry.token.revoke',
    params: Type.Object({ token_id: uuid('Token.') }),
    responses: { 200: RegistryToken },
    handler: async (ctx, { params }) => tokenView(await revokeRegistryToken(ctx, params.token_id), ctx.clock.now()),
  }),
]
