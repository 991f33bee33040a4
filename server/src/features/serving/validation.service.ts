import type { TenantCtx } from '../../platform/context.ts'
import { invalid } from '../../platform/errors.ts'
import { findTrainableDataset } from '../datasets/datasets.api.ts'

/** Throws a 422 unless it is a frozen data set of the tenant. */
export async function requireValidationDataset(ctx: TenantCtx, datasetId: string): Promise<void> {
  if (await findTrainableDataset(ctx, datasetId)) return
  const msg = 'must be a frozen data set of this tenant'
  throw invalid({ loc: ['body', 'validation_dataset_id'], msg, type: 'value_error', input: datasetId })
}
