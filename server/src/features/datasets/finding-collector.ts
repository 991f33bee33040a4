import { type Finding, type FindingCode, findingCodes, type Issue, type ValidationReport } from './validation-report.ts'

/** Findings of one code that are told in full; the rest is counted. */
export const toldPerCode = 100

/** Gathers findings without ever holding more than a report may tell. */
export class FindingCollector {
  #issues: Issue[] = []
  #counts = new Map<FindingCode, number>()

  add({ code, message, fileId = null, path = null, line = null }: Finding, count = 1): void {
    const before = this.#counts.get(code) ?? 0
    this.#counts.set(code, before + count)
    if (before < toldPerCode)
      this.#issues.push({ code, severity: findingCodes[code][0], message, file_id: fileId, path, line })
  }

  count(severity: 'error' | 'warning'): number {
    let sum = 0
    for (const [code, count] of this.#counts) if (findingCodes[code][0] === severity) sum += count
    return sum
  }

  /** Errors first, then in the order of their finding. */
  report(totals: { checkedAt: Date; total: number; ok: number; matchRate: number | null }): ValidationReport {
    const rank = (severity: string) => (severity === 'error' ? 0 : 1)
    const counts = [...this.#counts].map(([code, count]) => ({ code, severity: findingCodes[code][0], count }))
    return {
      checked_at: totals.checkedAt.toISOString(),
      total: totals.total,
      ok: totals.ok,
      warnings: this.count('warning'),
      errors: this.count('error'),
      match_rate: totals.matchRate,
      counts: counts.sort((a, b) => rank(a.severity) - rank(b.severity)),
      issues: this.#issues.sort((a, b) => rank(a.severity) - rank(b.severity)),
    }
  }
}

/** Tells those that were found and counts all. */
export function addMany(
  findings: FindingCollector,
  code: FindingCode,
  { total, found }: { total: number; found: Omit<Finding, 'code'>[] },
): void {
  for (const [index, finding] of found.entries())
    findings.add({ code, ...finding }, index === found.length - 1 ? total - index : 1)
}
