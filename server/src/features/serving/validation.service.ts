import { audited } from '../../platform/audit.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict, invalid } from '../../platform/errors.ts'
import { newId } from '../../platform/ids.ts'
import { startRun } from '../../platform/runs/runs.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { findTrainableDataset } from '../datasets/datasets.api.ts'
import { type EndpointRow, findEndpoint, lockEndpointByName } from './endpoints.store.ts'
import { requireEndpoint } from './require-endpoint.ts'
import { validationRun } from './validation.runs.ts'
import { findNewestValidation, insertValidation, type ValidationRow } from './validations.store.ts'

/** Throws a 422 unless it is a frozen data set of the tenant. */
export async function requireValidationDataset(ctx: TenantCtx, datasetId: string): Promise<void> {
  if (await findTrainableDataset(ctx, datasetId)) return
  const msg = 'must be a frozen data set of this tenant'
  throw invalid({ loc: ['body', 'validation_dataset_id'], msg, type: 'value_error', input: datasetId })
}

/** The newest run over the validation data set; null when there was none. */
export const getValidation = (ctx: TenantCtx, name: string): Promise<ValidationRow | null> =>
  read(ctx, async (tx) => {
    const endpoint = requireEndpoint(await findEndpoint(tx, ctx.tenant.id, name))
    return (await findNewestValidation(tx, endpoint)) ?? null
  })

/** Throws `conflict` without a data set, while no replica is ready, and while a run is under way. */
export async function validateEndpoint(ctx: TenantCtx, name: string): Promise<ValidationRow> {
  audited(ctx, name)
  return transaction(ctx, async (tx) => {
    const endpoint = requireEndpoint(await lockEndpointByName(tx, ctx.tenant.id, name))
    const refuse = (message: string, reason: string) => conflict(message, { detail: { reason } })
    if (!endpoint.validationDatasetId) throw refuse('The endpoint has no validation data set.', 'no_validation_dataset')
    if (endpoint.state !== 'RUNNING' && endpoint.state !== 'DEGRADED')
      throw refuse(`The endpoint is ${endpoint.state}; it must serve.`, 'not_serving')
    if (!(await startValidation(tx, ctx, endpoint)))
      throw refuse('A validation is under way already.', 'already_running')
    return (await findNewestValidation(tx, endpoint))!
  })
}

/** False when there is no data set, or a run is under way. The caller holds the endpoint's lock. */
export async function startValidation(tx: Tx, ctx: TenantCtx, endpoint: EndpointRow): Promise<boolean> {
  const { id: endpointId, tenantId, validationDatasetId: datasetId, imageDigest } = endpoint
  if (!datasetId || (await findNewestValidation(tx, endpoint))?.state === 'RUNNING') return false
  const id = newId()
  const input = { validationId: id, endpointId, tenantId, datasetId }
  const runId = await startRun(tx, ctx, validationRun, input, { subject: `validation:${id}` })
  await insertValidation(tx, endpoint, { id, runId, datasetId, imageDigest, createdBy: ctx.actor.email })
  return true
}
