import { audited } from '../../platform/audit.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { conflict, invalid } from '../../platform/errors.ts'
import type { PageQuery } from '../../platform/http/lists.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { requireDataset } from './dataset-access.ts'
import { cloneDataset, countDiff, listDiff, listVersions as queryVersions } from './dataset-versions.store.ts'
import { draftId, getDataset } from './datasets.service.ts'
import { type DatasetRow, findDataset } from './datasets.store.ts'

/** A draft that begins as a frozen dataset is, under the next number of the line. @source contract PR-33 */
export async function createVersion(ctx: TenantCtx, parentId: string, name: string | null): Promise<DatasetRow> {
  return transaction(ctx, async (tx) => {
    const parent = await requireDataset(tx, ctx, parentId)
    if (!parent.frozenAt)
      throw conflict('Only a frozen dataset gets versions; this one may be changed itself.', {
        detail: { reason: 'not_frozen' },
      })
    const line = await queryVersions(tx, ctx.tenant.id, parentId)
    const version = Math.max(...line.map((one) => one.version)) + 1
    const child = { id: draftId(name ?? parent.name), name: name ?? parent.name, version, createdBy: ctx.actor.email }
    audited(ctx, child.id, { parent: parentId, version })
    await cloneDataset(tx, parent, child)
    return (await findDataset(tx, ctx.tenant.id, child.id))!
  })
}

export async function listVersions(ctx: TenantCtx, id: string) {
  await getDataset(ctx, id)
  return read(ctx, (tx) => queryVersions(tx, ctx.tenant.id, id))
}

/** What changed from `against`, or from the parent, to this dataset. */
export async function diffDatasets(ctx: TenantCtx, id: string, against: string | undefined, page: PageQuery) {
  const dataset = await getDataset(ctx, id)
  const before = against ?? dataset.parentId
  if (!before)
    throw invalid({ loc: ['query', 'against'], msg: 'is required: the dataset has no parent', type: 'missing' })
  await getDataset(ctx, before)
  return read(ctx, async (tx) => {
    const counts = await countDiff(tx, ctx.tenant.id, before, id)
    return { against: before, counts, items: await listDiff(tx, ctx.tenant.id, before, id, page) }
  })
}
