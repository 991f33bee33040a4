import { sql } from 'kysely'
import type { Database } from '../../platform/db/database.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'

export interface TokenRow {
  id: string
  userId: string
  name: string
  createdAt: Date
  lastUsedAt: Date | null
  expiresAt: Date | null
  revokedAt: Date | null
}

const columns = ['id', 'userId', 'name', 'createdAt', 'lastUsedAt', 'expiresAt', 'revokedAt'] as const

export async function insertToken(
  tx: Tx,
  tenantId: string,
  token: { userId: string; name: string; tokenHash: string; createdAt: Date; expiresAt: Date | null },
): Promise<TokenRow> {
  return tx
    .insertInto('trackerTokens')
    .values({ id: newId(), tenantId, ...token })
    .returning(columns)
    .executeTakeFirstOrThrow()
}

/** Newest first. */
export async function listTokensOf(tx: Tx, tenantId: string, userId: string): Promise<TokenRow[]> {
  return tx
    .selectFrom('trackerTokens')
    .select(columns)
    .where('tenantId', '=', tenantId)
    .where('userId', '=', userId)
    .orderBy('createdAt', 'desc')
    .orderBy('id', 'desc')
    .execute()
}

export async function findToken(tx: Tx, tenantId: string, id: string): Promise<TokenRow | null> {
  const row = await tx
    .selectFrom('trackerTokens')
    .select(columns)
    .where('tenantId', '=', tenantId)
    .where('id', '=', id)
    .executeTakeFirst()
  return row ?? null
}

/** The first time counts. */
export async function revokeToken(tx: Tx, tenantId: string, id: string, at: Date): Promise<TokenRow> {
  return tx
    .updateTable('trackerTokens')
    .set({ revokedAt: sql`coalesce(revoked_at, ${at})` })
    .where('tenantId', '=', tenantId)
    .where('id', '=', id)
    .returning(columns)
    .executeTakeFirstOrThrow()
}

/** Live tokens that expire after `from` and not after `to`. */
export async function listExpiringTokens(tx: Tx, from: Date, to: Date) {
  return tx
    .selectFrom('trackerTokens')
    .select(['id', 'tenantId', 'userId', 'name', 'expiresAt'])
    .where('revokedAt', 'is', null)
    .where('expiresAt', '>', from)
    .where('expiresAt', '<=', to)
    .orderBy('id')
    .execute()
}

/** Whom a token lets in. */
export interface TokenLogin {
  tokenId: string
  tenantId: string
  tenantCode: string
  tenantIsActive: boolean
  tenantFeatures: Record<string, boolean>
  userId: string
  email: string
  fullName: string | null
  isSuperuser: boolean
  role: string | null
  lastUsedAt: Date | null
}

/**
 * The logins of tokens by their hashes, in one round trip; none for a token that is unknown, expired or revoked, or whose
 * owner is inactive.
 */
export async function findTokenLogins(db: Database, hashes: string[]): Promise<Map<string, TokenLogin>> {
  const result = await sql<TokenLogin & { tokenHash: string }>`
    select * from tracker_logins(${hashes}::text[])`.execute(db.kysely)
  return new Map(result.rows.map(({ tokenHash, ...login }) => [tokenHash, login]))
}

export async function markTokenUsed(tx: Tx, tenantId: string, id: string, at: Date): Promise<void> {
  await tx
    .updateTable('trackerTokens')
    .set({ lastUsedAt: at })
    .where('tenantId', '=', tenantId)
    .where('id', '=', id)
    .execute()
}
