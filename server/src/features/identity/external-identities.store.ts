import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import type { UserRow } from './identity.store.ts'

/** The account that the provider's name for a person stands for, held until the transaction ends; notes the login. */
export async function findByIdentity(tx: Tx, issuer: string, subject: string): Promise<UserRow | undefined> {
  const known = await tx
    .updateTable('externalIdentities')
    .set({ lastLoginAt: sql`now()` })
    .where('issuer', '=', issuer)
    .where('subject', '=', subject)
    .returning('userId')
    .executeTakeFirst()
  if (!known) return undefined
  return tx.selectFrom('users').selectAll().where('id', '=', known.userId).forNoKeyUpdate().executeTakeFirst()
}

export async function linkIdentity(tx: Tx, issuer: string, subject: string, userId: string): Promise<void> {
  await tx
    .insertInto('externalIdentities')
    .values({ issuer, subject, userId })
    .onConflict((conflict) => conflict.columns(['issuer', 'subject']).doNothing())
    .execute()
}
