import { createHash, randomBytes, randomInt } from 'node:crypto'
import { audited } from '../../platform/audit.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { forbidden, notFound } from '../../platform/errors.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { findToken, insertToken, listTokensOf, revokeToken, type TokenRow } from './tokens.store.ts'

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const pattern = /^mlt_[0-9A-Za-z]{10}_[\w-]{43}$/
const dayMs = 86_400_000

/** Tokens are random enough that a plain hash keeps them; null for what is none. */
export const tokenHash = (token: string): string | null =>
  pattern.test(token) ? createHash('sha256').update(token).digest('hex') : null

function newToken(): string {
  const id = Array.from({ length: 10 }, () => base62[randomInt(62)]).join('')
  return `mlt_${id}_${randomBytes(32).toString('base64url')}`
}

/** A token for the caller in the chosen tenant; its text is known only now. @source contract PR-43, B10.1 */
export async function createToken(
  ctx: TenantCtx,
  { name, expiresInDays }: { name: string; expiresInDays: number | null },
): Promise<{ row: TokenRow; token: string }> {
  const token = newToken()
  const createdAt = ctx.clock.now()
  const expiresAt = expiresInDays === null ? null : new Date(createdAt.getTime() + expiresInDays * dayMs)
  const fields = { userId: ctx.actor.userId, name, tokenHash: tokenHash(token)!, createdAt, expiresAt }
  audited(ctx, name, { expires_at: expiresAt })
  const row = await transaction(ctx, (tx) => insertToken(tx, ctx.tenant.id, fields))
  return { row, token }
}

export const listOwnTokens = (ctx: TenantCtx): Promise<TokenRow[]> =>
  read(ctx, (tx) => listTokensOf(tx, ctx.tenant.id, ctx.actor.userId))

/** Ends a token at once, again and again without harm: one's own, or with SETTINGS anybody's. @source contract PR-44 */
export async function endToken(ctx: TenantCtx, id: string): Promise<TokenRow> {
  return transaction(ctx, async (tx) => {
    const token = await findToken(tx, ctx.tenant.id, id)
    if (!token) throw notFound('There is no such tracker token.')
    if (token.userId !== ctx.actor.userId && !ctx.permissions.has('SETTINGS')) {
      throw forbidden("Ending another person's token needs the permission SETTINGS.")
    }
    audited(ctx, token.name)
    return revokeToken(tx, ctx.tenant.id, id, ctx.clock.now())
  })
}
