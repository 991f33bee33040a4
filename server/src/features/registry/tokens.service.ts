import { audited } from '../../platform/audit.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { notFound } from '../../platform/errors.ts'
import { publish } from '../../platform/events/events.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { registryHost } from './repository-names.ts'
import { revokedChannel } from './token-access.ts'
import { hashOfToken, newTokenSecret } from './token-secret.ts'
import { findToken, insertToken, listTokens, revokeToken as markRevoked, type TokenRow } from './tokens.store.ts'

const dayMs = 86_400_000

/** One's own tokens; everybody's for who may manage the tenant. */
export function listRegistryTokens(ctx: TenantCtx): Promise<TokenRow[]> {
  return read(ctx, (tx) => listTokens(tx, ctx.tenant.id, ctx.permissions.has('SETTINGS') ? null : ctx.actor.userId))
}

export interface TokenRequest {
  name?: string | null
  expires_in_days?: number | null
}

/** @source service §2.7, contract B9.2 */
export async function createRegistryToken(ctx: TenantCtx, { name, expires_in_days: days }: TokenRequest) {
  const { token, prefix } = newTokenSecret()
  const expiresAt = days ? new Date(ctx.clock.now().getTime() + days * dayMs) : null
  const row = await transaction(ctx, (tx) => {
    audited(ctx, prefix, { expires_in_days: days ?? null })
    return insertToken(tx, {
      tenantId: ctx.tenant.id,
      userId: ctx.actor.userId,
      name: name?.trim() || prefix,
      prefix,
      secretHash: hashOfToken(token)!,
      expiresAt,
    })
  })
  return { ...row, token, username: ctx.actor.email, registry: registryHost(ctx) }
}

/** Blocks it at once, in every process; doing it again changes nothing. Throws `not_found`, also for another's token. */
export async function revokeRegistryToken(ctx: TenantCtx, id: string): Promise<TokenRow> {
  return transaction(ctx, async (tx) => {
    const token = await findToken(tx, ctx.tenant.id, id)
    if (!token || (token.userId !== ctx.actor.userId && !ctx.permissions.has('SETTINGS'))) {
      throw notFound('There is no such token of yours.')
    }
    audited(ctx, token.prefix)
    await markRevoked(tx, id, ctx.actor.email)
    await publish(tx, revokedChannel, 'revoked', { id })
    return (await findToken(tx, ctx.tenant.id, id))!
  })
}
