import type { Ctx } from './context.ts'
import type { Tx } from './db/transaction.ts'
import { newId } from './ids.ts'

export type AuditOutcome = 'success' | 'denied'

/**
 * Names what the use case acts on and what changed; the row itself is written with the change, by `transaction`.
 * `detail` must hold no secret.
 */
export function audited(ctx: Ctx, target: string, detail?: unknown): void {
  if (!ctx.audit) return
  ctx.audit.target = target
  if (detail !== undefined) ctx.audit.detail = detail
}

/** Writes the audit row of the context, once. @source contract B12.8 */
export async function writeAudit(tx: Tx, ctx: Ctx, outcome: AuditOutcome): Promise<void> {
  const note = ctx.audit
  if (!note || note.written) return
  const tenant = ctx.kind === 'tenant' ? ctx.tenant : null
  const actor = ctx.kind === 'anonymous' ? null : ctx.actor
  await tx
    .insertInto('auditEvents')
    .values({
      id: newId(),
      at: ctx.clock.now(),
      tenantId: tenant?.id ?? null,
      tenantCode: tenant?.code ?? null,
      actorId: actor?.userId ?? null,
      actorEmail: actor?.email ?? null,
      action: note.action,
      target: note.target ?? null,
      outcome,
      ip: note.ip,
      requestId: ctx.requestId,
      detail: note.detail === undefined ? null : JSON.stringify(note.detail),
    })
    .execute()
  note.written = true
}
