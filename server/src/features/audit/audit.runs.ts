import type { RetentionRule } from '../../platform/retention.ts'
import { defineRun, type Schedule, type StepRun, step } from '../../platform/runs/define-run.ts'
import { eraseAudit, sealAudit } from './chain.ts'

export const sealing = defineRun<Record<string, never>>({
  kind: 'audit.seal',
  steps: [step('seal', 'Seal what was written', seal)],
})

/** The head goes to the log, so that a copy of the log witnesses what the chain was. */
async function seal(s: StepRun<unknown>): Promise<void> {
  const { sealed, head } = await sealAudit(s.ctx, s.signal)
  if (sealed) s.ctx.log.info({ sealed, audit_head: head }, 'audit sealed')
}

export const sealSchedule: Schedule = { name: 'audit.seal', every: 60_000, kind: sealing.kind, input: {} }

export const auditRetention: RetentionRule = {
  kind: 'audit',
  what: 'audit entries',
  ofSystem: true,
  erase: (ctx, scope, signal) => eraseAudit(ctx, scope, 'retention', signal),
}
