import type { FileFilter, KnownTotals } from './dataset-files.store.ts'
import type { DatasetRow } from './datasets.store.ts'

const remembered = 1000

const totals = new Map<string, number>()

/**
 * Totals of searches that match much: counting a million names takes longer than showing a page of them. They hold as
 * long as the files do, so the state of the dataset is part of the key; while it is validated nothing is remembered.
 */
export function knownTotals({ tenantId, id, revision, validatedRevision, validationStatus }: DatasetRow): KnownTotals {
  return async ({ q, status, kind, origin }: FileFilter, count) => {
    if (validationStatus === 'RUNNING' || revision > validatedRevision) return count()
    const key = JSON.stringify([tenantId, id, revision, q?.trim().toLowerCase(), status, kind, origin])
    const known = totals.get(key)
    if (known !== undefined) return known
    const total = await count()
    const oldest = totals.keys().next()
    if (totals.size >= remembered && !oldest.done) totals.delete(oldest.value)
    totals.set(key, total)
    return total
  }
}
