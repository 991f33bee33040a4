import type { Feature } from '../../platform/feature.ts'
import type { RetentionRule } from '../../platform/retention.ts'
import { defineRun, type RunKind, type Schedule, type StepRun, step } from '../../platform/runs/define-run.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { recordSystemEntry } from '../audit/audit.api.ts'
import { effectiveRetention, retentionDefaults } from './retention.ts'
import { listTenants } from './tenants.store.ts'

type Run = StepRun<Record<string, never>>

const dayMs = 86_400_000

/** Erases what is older than each tenant keeps it; the features say what there is. @source ADR 0015 */
export function retentionKind(features: Feature[]): RunKind {
  const rules = features.flatMap(({ name, retention }) =>
    (retention ?? []).map((rule) => ({ id: `${name}-${rule.kind}`, rule })),
  )
  return defineRun<Record<string, never>>({
    kind: 'tenants.erase',
    steps: [
      ...rules.map(({ id, rule }) => step(id, `Erase old ${rule.what}`, (s: Run) => eraseBy(s, rule))),
      step('record', 'Record what was erased', (s: Run) =>
        record(s, Object.fromEntries(rules.map(({ id, rule }) => [rule.what, s.output<number>(id)]))),
      ),
    ],
  })
}

/** In small pieces, so that an interruption loses little; what was erased before one is counted all the same. */
async function eraseBy(s: Run, rule: RetentionRule): Promise<number> {
  let erased = s.saved<number>() ?? 0
  for (const { tenantId, days } of await scopesOf(s, rule)) {
    if (days === 0) continue
    const before = new Date(s.ctx.clock.now().getTime() - days * dayMs)
    for (let count = 1; count > 0; ) {
      s.signal.throwIfAborted()
      count = await rule.erase(s.ctx, { tenantId, before }, s.signal)
      erased += count
      if (count > 0) await s.save(erased)
    }
  }
  if (erased) s.log(`${rule.what}: ${erased} erased`)
  return erased
}

async function scopesOf(
  s: Run,
  { kind, ofSystem }: RetentionRule,
): Promise<{ tenantId: string | null; days: number }[]> {
  const tenants = await read(s.ctx, listTenants)
  const ofTenants = tenants.map(({ id, retention }) => ({ tenantId: id, days: effectiveRetention(retention)[kind] }))
  return ofSystem ? [{ tenantId: null, days: retentionDefaults[kind] }, ...ofTenants] : ofTenants
}

/** That entries of the audit went is itself an entry, so that nobody takes the gap for a deed. */
async function record(s: Run, counts: Record<string, number>): Promise<void> {
  const erased = Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0))
  if (Object.keys(erased).length === 0) return
  const entry = { id: s.runId, action: 'retention.erased', target: 'records', detail: { erased } }
  await transaction(s.ctx, (tx) => recordSystemEntry(tx, s.ctx, entry))
}

export const retentionSchedule: Schedule = {
  name: 'tenants.erase',
  every: '20 2 * * *',
  kind: 'tenants.erase',
  input: {},
}
