import { writeAudit } from './audit.ts'
import type { Ctx } from './context.ts'
import { readTransaction, transaction as scopedTransaction, type Tx } from './db/transaction.ts'

/**
 * One transaction of a use case that changes something: it sees only the context's tenant, and it takes the audit
 * row along, so that no change is without one and no row without its change.
 * @source house.md §4
 */
export function transaction<T>(ctx: Ctx, work: (tx: Tx) => Promise<T>): Promise<T> {
  return scopedTransaction(ctx.db, ctx.scope, async (tx) => {
    const already = ctx.audit?.written ?? true
    const result = await work(tx)
    if (!already && ctx.audit) {
      // A retried attempt was rolled back with its row, so the mark must not survive it.
      ctx.audit.written = false
      await writeAudit(tx, ctx, 'success')
    }
    return result
  })
}

/** A look at the context's tenant; changes nothing and leaves no audit row. */
export function read<T>(ctx: Ctx, work: (tx: Tx) => Promise<T>): Promise<T> {
  return readTransaction(ctx.db, ctx.scope, work)
}
