import { defineRun, type Schedule, type StepRun, step } from '../../platform/runs/define-run.ts'
import { read } from '../../platform/transaction.ts'
import { defaultRetentionDays, listRetention } from '../tenants/tenants.api.ts'
import { recordSystemEntry } from './audit.api.ts'
import { eraseAudit, sealAudit } from './chain.ts'

const dayMs = 86_400_000

const sealing = defineRun<Record<string, never>>({
  kind: 'audit.seal',
  steps: [step('seal', 'Seal what was written', seal)],
})

const erasing = defineRun<Record<string, never>>({
  kind: 'audit.erase',
  steps: [step('erase', 'Erase what is too old', erase)],
})

/** The head goes to the log, so that a copy of the log witnesses what the chain was. */
async function seal(s: StepRun<unknown>): Promise<void> {
  const { sealed, head } = await sealAudit(s.ctx, s.signal)
  if (sealed) s.ctx.log.info({ sealed, audit_head: head }, 'audit sealed')
}

/** Each tenant's entries by its own setting, those of the system by the default. */
async function erase(s: StepRun<unknown>): Promise<void> {
  const scopes = [
    { tenantId: null, days: defaultRetentionDays('audit') },
    ...(await read(s.ctx, (tx) => listRetention(tx, 'audit'))),
  ]
  let erased = 0
  for (const { tenantId, days } of scopes) {
    if (days === 0) continue
    const before = new Date(s.ctx.clock.now().getTime() - days * dayMs)
    erased += await eraseAudit(s.ctx, { tenantId, before }, 'retention', s.signal)
  }
  s.log(`${erased} entries erased`)
  if (erased === 0) return
  const entry = { id: s.runId, action: 'audit.erased', target: 'audit', detail: { erased, reason: 'retention' } }
  await read(s.ctx, (tx) => recordSystemEntry(tx, s.ctx, entry))
}

export const auditRuns = [sealing, erasing]

export const auditSchedules: Schedule[] = [
  { name: 'audit.seal', every: 60_000, kind: sealing.kind, input: {} },
  { name: 'audit.erase', every: '20 2 * * *', kind: erasing.kind, input: {} },
]
