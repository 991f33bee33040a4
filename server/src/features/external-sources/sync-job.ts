import { createHash } from 'node:crypto'
import type { ExternalSource } from '../../adapters/external-sources/external-sources.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { conflict } from '../../platform/errors.ts'
import type { StepRun } from '../../platform/runs/define-run.ts'
import { read } from '../../platform/transaction.ts'
import type { SyncTarget } from '../datasets/dataset-sync.api.ts'
import { findConfig, findSyncRun, type SyncConfigRow } from './dataset-syncs.store.ts'
import { findSource } from './external-sources.store.ts'
import { placeOf, storedAddress } from './source-address.ts'

export interface SyncInput {
  datasetId: string
  dryRun: boolean
}

/** What every step of a sync works with. */
export interface SyncJob {
  ctx: TenantCtx
  runId: string
  target: SyncTarget
  config: SyncConfigRow
  source: ExternalSource
  /** Names an object of this source among all objects of all sources. */
  originOf(key: string): string
}

/** Does the work of a step with its source, and lets go of it in the end. */
export async function withJob<T>(s: StepRun<SyncInput>, work: (job: SyncJob) => Promise<T>): Promise<T> {
  const ctx = s.ctx as TenantCtx
  const target = { tenantId: ctx.tenant.id, datasetId: s.input.datasetId }
  const { config, row } = await read(ctx, async (tx) => {
    const run = await findSyncRun(tx, target, s.runId)
    return { config: await findConfig(tx, target), row: run && (await findSource(tx, target.tenantId, run.sourceId)) }
  })
  if (!config || !row) throw conflict('The dataset follows no source any more.')
  const place = placeOf(row)
  const source = ctx.adapters.externalSources.open(storedAddress(ctx, row))
  const originOf = (key: string) => createHash('sha256').update(`${place}\n${key}`).digest('base64url')
  try {
    return await work({ ctx, runId: s.runId, target, config, source, originOf })
  } finally {
    source.close()
  }
}
