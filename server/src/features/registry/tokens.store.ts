import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'

export interface NewToken {
  tenantId: string
  userId: string
  name: string
  prefix: string
  secretHash: Buffer
  expiresAt: Date | null
}

export async function insertToken(tx: Tx, token: NewToken) {
  return tx
    .insertInto('registryTokens')
    .values({ id: newId(), ...token })
    .returning(['id', 'name', 'expiresAt'])
    .executeTakeFirstOrThrow()
}

const listed = (tx: Tx) =>
  tx
    .selectFrom('registryTokens as t')
    .innerJoin('users as u', 'u.id', 't.userId')
    .select(['t.id', 't.userId', 't.name', 't.prefix', 't.createdAt', 't.expiresAt', 't.lastUsedAt', 't.revokedAt'])
    .select(['u.email as ownerEmail'])

/** Tokens of one user in the tenant, or of everybody when `userId` is null; the newest first. */
export async function listTokens(tx: Tx, tenantId: string, userId: string | null) {
  let query = listed(tx).where('t.tenantId', '=', tenantId)
  if (userId) query = query.where('t.userId', '=', userId)
  return query.orderBy('t.createdAt', 'desc').orderBy('t.id').execute()
}

export type TokenRow = Awaited<ReturnType<typeof listTokens>>[number]

export async function findToken(tx: Tx, tenantId: string, id: string): Promise<TokenRow | undefined> {
  return listed(tx).where('t.tenantId', '=', tenantId).where('t.id', '=', id).executeTakeFirst()
}

/** Blocks the token; one that is blocked stays as it was. */
export async function revokeToken(tx: Tx, id: string, by: string): Promise<void> {
  await tx
    .updateTable('registryTokens')
    .set({ revokedAt: sql`now()`, revokedBy: by })
    .where('id', '=', id)
    .where('revokedAt', 'is', null)
    .execute()
}

/** Everything a request of a registry client has to know about its token, in one look. */
export async function findTokenBySecret(tx: Tx, secretHash: Buffer) {
  return tx
    .selectFrom('registryTokens as k')
    .innerJoin('users as u', 'u.id', 'k.userId')
    .innerJoin('tenants as t', 't.id', 'k.tenantId')
    .leftJoin('memberships as m', (join) => join.onRef('m.tenantId', '=', 't.id').onRef('m.userId', '=', 'u.id'))
    .select(['k.id', 'k.secretHash', 'k.expiresAt', 'k.revokedAt', 'm.role'])
    .select(['u.id as userId', 'u.email', 'u.fullName', 'u.isActive as userIsActive', 'u.isSuperuser'])
    .select(['t.id as tenantId', 't.code as tenantCode', 't.isActive as tenantIsActive', 't.features'])
    .where('k.secretHash', '=', secretHash)
    .executeTakeFirst()
}

export async function markTokensUsed(tx: Tx, ids: string[]): Promise<void> {
  await tx.updateTable('registryTokens').set({ lastUsedAt: sql`now()` }).where('id', 'in', ids).execute()
}

/** Live tokens that expire after `from` and not after `to`. */
export async function listExpiringTokens(tx: Tx, from: Date, to: Date) {
  return tx
    .selectFrom('registryTokens')
    .select(['id', 'tenantId', 'userId', 'name', 'expiresAt'])
    .where('revokedAt', 'is', null)
    .where('expiresAt', '>', from)
    .where('expiresAt', '<=', to)
    .orderBy('id')
    .execute()
}
