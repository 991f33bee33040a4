import type { Tx } from '../../platform/db/transaction.ts'
import type { EndpointRef } from './endpoints.store.ts'

export interface Kpi {
  name: string
  value: number | null
  /** What it must reach, or may reach at the most; null when it is only told. */
  threshold: number | null
  ok: boolean
}

export interface ValidationResult {
  state: 'PASSED' | 'FAILED'
  samples: number
  correct: number
  failed: number
  kpis: Kpi[]
  latencyMs: { p50: number; p95: number; p99: number } | null
  errors: string[]
}

export interface ValidationRow {
  id: string
  runId: string
  state: 'RUNNING' | 'PASSED' | 'FAILED'
  datasetId: string
  imageDigest: string
  samples: number | null
  correct: number | null
  failed: number | null
  kpis: Kpi[]
  latencyMs: ValidationResult['latencyMs']
  errors: string[]
  startedAt: Date
  endedAt: Date | null
}

export interface NewValidation {
  id: string
  runId: string
  datasetId: string
  imageDigest: string
  createdBy: string
}

export async function insertValidation(
  tx: Tx,
  { tenantId, id: endpointId }: EndpointRef,
  validation: NewValidation,
): Promise<void> {
  await tx
    .insertInto('servingValidations')
    .values({ ...validation, tenantId, endpointId })
    .execute()
}

export async function findNewestValidation(tx: Tx, { tenantId, id }: EndpointRef): Promise<ValidationRow | undefined> {
  const row = await tx
    .selectFrom('servingValidations')
    .selectAll()
    .where('tenantId', '=', tenantId)
    .where('endpointId', '=', id)
    .orderBy('startedAt', 'desc')
    .orderBy('id')
    .limit(1)
    .executeTakeFirst()
  return row as unknown as ValidationRow | undefined
}

/** Ends one that is under way; one that has ended stays as it is. */
export async function endValidation(
  tx: Tx,
  id: string,
  { kpis, latencyMs, errors, ...result }: Pick<ValidationResult, 'state' | 'errors'> & Partial<ValidationResult>,
): Promise<void> {
  await tx
    .updateTable('servingValidations')
    .set({
      ...result,
      ...(kpis ? { kpis: JSON.stringify(kpis) } : {}),
      ...(latencyMs ? { latencyMs: JSON.stringify(latencyMs) } : {}),
      errors: JSON.stringify(errors),
      endedAt: new Date(),
    })
    .where('id', '=', id)
    .where('state', '=', 'RUNNING')
    .execute()
}
