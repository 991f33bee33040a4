import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

/** What a training needs to know of a frozen dataset. */
export interface TrainableRow {
  id: string
  name: string
  digest: string
  classes: string[]
  tasks: string[]
  fileCount: number
  sizeBytes: number
  frozenAt: Date
  splits: Record<string, number>
}

const trainable = (tx: Tx, tenantId: string) =>
  tx
    .selectFrom('datasets')
    .select(['id', 'name', 'digest', 'classes', 'tasks', 'fileCount', 'sizeBytes', 'frozenAt', 'splits'])
    .where('tenantId', '=', tenantId)
    .where('state', '=', 'FROZEN')
    .where('fileCount', '>', 0)
    .$castTo<TrainableRow>()

export const listTrainable = (tx: Tx, tenantId: string): Promise<TrainableRow[]> =>
  trainable(tx, tenantId).orderBy('frozenAt', 'desc').orderBy('id').execute()

export const findTrainable = (tx: Tx, tenantId: string, id: string): Promise<TrainableRow | undefined> =>
  trainable(tx, tenantId).where('id', '=', id).executeTakeFirst()

export interface SampleRow {
  path: string
  digest: string
  size: number
  label: string | null
  split: 'train' | 'val' | 'test' | null
}

/** The files of a dataset after a path, in path order, at most `limit`. */
export function listSamples(
  tx: Tx,
  tenantId: string,
  datasetId: string,
  after: string,
  limit: number,
): Promise<SampleRow[]> {
  return tx
    .selectFrom('datasetFiles')
    .select(['path', 'digest', 'size', 'label', 'split'])
    .where('tenantId', '=', tenantId)
    .where('datasetId', '=', datasetId)
    .where('path', '>', after)
    .orderBy('path')
    .limit(limit)
    .$castTo<SampleRow>()
    .execute()
}

export interface Usage {
  datasetId: string
  experimentId: string
  experimentName: string
  state: 'running' | 'ended'
}

export async function upsertUsage(tx: Tx, tenantId: string, usage: Usage): Promise<void> {
  const endedAt = usage.state === 'ended' ? sql<Date>`now()` : null
  await tx
    .insertInto('datasetUsage')
    .values({ tenantId, ...usage, endedAt })
    .onConflict((oc) =>
      oc
        .columns(['tenantId', 'datasetId', 'experimentId'])
        .doUpdateSet({ state: usage.state, experimentName: usage.experimentName, endedAt }),
    )
    .execute()
}

export async function deleteUsage(tx: Tx, tenantId: string, experimentId: string): Promise<void> {
  await tx
    .deleteFrom('datasetUsage')
    .where('tenantId', '=', tenantId)
    .where('experimentId', '=', experimentId)
    .execute()
}

export const listUsage = (tx: Tx, tenantId: string, datasetId: string) =>
  tx
    .selectFrom('datasetUsage')
    .select(['experimentId', 'experimentName', 'state', 'startedAt', 'endedAt'])
    .where('tenantId', '=', tenantId)
    .where('datasetId', '=', datasetId)
    .orderBy('startedAt', 'desc')
    .orderBy('experimentId')
    .execute()
