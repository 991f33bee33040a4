import type { createRegistryToken } from './tokens.service.ts'
import type { TokenRow } from './tokens.store.ts'

const time = (date: Date | null) => date?.toISOString() ?? null

export const tokenView = (token: TokenRow, now: Date) => ({
  id: token.id,
  name: token.name,
  prefix: token.prefix,
  owner: token.ownerEmail,
  status: token.revokedAt ? 'revoked' : token.expiresAt && token.expiresAt <= now ? 'expired' : 'active',
  created_at: token.createdAt.toISOString(),
  expires_at: time(token.expiresAt),
  last_used_at: time(token.lastUsedAt),
  revoked_at: time(token.revokedAt),
})

export const createdTokenView = (token: Awaited<ReturnType<typeof createRegistryToken>>) => ({
  id: token.id,
  name: token.name,
  token: token.token,
  username: token.username,
  registry: token.registry,
  expires_at: time(token.expiresAt),
})
