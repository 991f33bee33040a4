import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { withinReach } from './notifications.store.ts'

/** E-mails that are due, oldest first; those of accounts that are switched off, or have left the tenant, wait. */
export async function listDueEmails(tx: Tx, limit: number) {
  return tx
    .selectFrom('notifications as n')
    .innerJoin('users as u', 'u.id', 'n.userId')
    .leftJoin('tenants as t', 't.id', 'n.tenantId')
    .select(['n.id', 'n.title', 'n.body', 'n.link', 'n.emailAttempts', 'u.email', 't.name as tenantName'])
    .where('n.emailState', '=', 'pending')
    .where('n.emailAfter', '<=', sql<Date>`now()`)
    .where('u.isActive', '=', true)
    .where(withinReach)
    .orderBy('n.emailAfter')
    .limit(limit)
    .execute()
}

export type DueEmail = Awaited<ReturnType<typeof listDueEmails>>[number]

/** What was read meanwhile, or is older than so many hours and was never tried, is no news any more. */
export async function dropStaleEmails(tx: Tx, hours: number): Promise<void> {
  await sql`
    update notifications set email_state = 'none'
    where email_state = 'pending' and email_attempts = 0
      and (read_at is not null or created_at < now() - make_interval(hours => ${hours}))`.execute(tx)
}

export async function markEmail(tx: Tx, id: string, state: 'sent' | 'failed', error: string | null): Promise<void> {
  await tx.updateTable('notifications').set({ emailState: state, emailError: error }).where('id', '=', id).execute()
}

/** Tries again after so many seconds. */
export async function postponeEmail(tx: Tx, id: string, seconds: number, error: string): Promise<void> {
  await tx
    .updateTable('notifications')
    .set({
      emailAttempts: sql`email_attempts + 1`,
      emailAfter: sql`now() + make_interval(secs => ${seconds})`,
      emailError: error,
    })
    .where('id', '=', id)
    .execute()
}
