import type { Ctx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'

export interface SystemEntry {
  id: string
  /** `noun.verbed`. */
  action: string
  target: string
  detail: unknown
}

export async function insertOnce(tx: Tx, ctx: Ctx, entry: SystemEntry): Promise<void> {
  const actor = ctx.kind === 'anonymous' ? null : ctx.actor
  await tx
    .insertInto('auditEvents')
    .values({
      ...entry,
      at: ctx.clock.now(),
      actorId: actor?.userId ?? null,
      actorEmail: actor?.email ?? null,
      outcome: 'success',
      requestId: ctx.requestId,
      detail: JSON.stringify(entry.detail),
    })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .execute()
}
