import type { Tx } from '../../platform/db/transaction.ts'
import { notify } from '../notifications/notifications.api.ts'

const hourMs = 3_600_000

export interface ValidatedDataset {
  tenantId: string
  datasetId: string
  name: string
  /** Why it is not valid; null when it is. */
  fault: string | null
}

/**
 * Whoever had a dataset validated learns what came of it: the same outcome at most once an hour, because every upload
 * brings a validation.
 */
export function tellValidated(tx: Tx, userId: string, dataset: ValidatedDataset, now: Date): Promise<void> {
  const { tenantId, datasetId, name, fault } = dataset
  return notify(tx, {
    tenantId,
    to: { userIds: [userId] },
    group: 'dataset',
    title: `Dataset ${name} ${fault === null ? 'is valid' : 'is not valid'}`,
    body: fault,
    link: `/datasets/${datasetId}`,
    dedupeKey: `dataset:${datasetId}:${fault === null}:${Math.floor(now.getTime() / hourMs)}`,
  })
}
