import type { Kpi, ValidationResult } from './validations.store.ts'

/** What a validation has seen so far. */
export interface Tally {
  sent: number
  correct: number
  /** Requests that got no prediction. */
  failed: number
  latenciesMs: number[]
  errors: string[]
}

export const emptyTally = (): Tally => ({ sent: 0, correct: 0, failed: 0, latenciesMs: [], errors: [] })

/** How far the served accuracy may lie below the one of the training: other samples, other decoders. */
const accuracyTolerance = 0.05
/** Accuracies that a training recorded with the version, the one on held-out samples first. */
const recordedAccuracies = ['test/top1', 'val/top1']
const errorsKept = 10

/**
 * Passed when every request was answered and the accuracy is that of the training, within 0.05; a version without a
 * recorded accuracy is only measured.
 */
export function judge(tally: Tally, metrics: Record<string, number>): ValidationResult {
  const { sent, correct, failed, errors } = tally
  const recorded = recordedAccuracies.map((key) => metrics[key]).find((value) => typeof value === 'number')
  const threshold = recorded === undefined ? null : Math.max(0, recorded - accuracyTolerance)
  const accuracy = sent === 0 ? null : correct / sent
  const latencyMs = percentiles(tally.latenciesMs)
  const kpis: Kpi[] = [
    { name: 'top1', value: accuracy, threshold, ok: accuracy !== null && accuracy >= (threshold ?? 0) },
    { name: 'error_rate', value: sent === 0 ? null : failed / sent, threshold: 0, ok: failed === 0 },
    { name: 'p95_latency_ms', value: latencyMs?.p95 ?? null, threshold: null, ok: true },
  ]
  const passed = kpis.every(({ ok }) => ok)
  const said = sent === 0 ? ['The data set has no labelled samples.'] : errors.slice(0, errorsKept)
  return { state: passed ? 'PASSED' : 'FAILED', samples: sent, correct, failed, kpis, latencyMs, errors: said }
}

function percentiles(values: number[]): ValidationResult['latencyMs'] {
  if (values.length === 0) return null
  const sorted = values.toSorted((a, b) => a - b)
  const at = (share: number) => Math.round(sorted[Math.floor((sorted.length - 1) * share)]! * 100) / 100
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
}
