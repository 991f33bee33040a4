import { createHash, randomBytes } from 'node:crypto'
import { audited } from '../../platform/audit.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict } from '../../platform/errors.ts'
import { ordering } from '../../platform/http/lists.ts'
import { cancelRun } from '../../platform/runs/runs.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { noDataset, requireDataset, requireDeletable } from './dataset-access.ts'
import { listSamples, listUsage } from './dataset-training.store.ts'
import { liveUploadsOf } from './dataset-uploads.store.ts'
import { datasetSorts } from './datasets.schema.ts'
import { freezeObstacle, freezeObstacles } from './datasets.states.ts'
import {
  updateDataset as changeDataset,
  type DatasetFilter,
  type DatasetRow,
  findDataset,
  insertDataset,
  type NewDataset,
  listDatasets as queryDatasets,
  readFacts,
  deleteDataset as removeDataset,
  settleDataset,
} from './datasets.store.ts'
import { removeUploadFolder } from './upload-folders.ts'

export async function getDataset(ctx: TenantCtx, id: string): Promise<DatasetRow> {
  const dataset = await read(ctx, (tx) => findDataset(tx, ctx.tenant.id, id))
  if (!dataset) throw noDataset()
  return dataset
}

export const listDatasets = (ctx: TenantCtx, filter: DatasetFilter) =>
  read(ctx, (tx) => queryDatasets(tx, ctx.tenant.id, filter, ordering(datasetSorts, filter)))

/** Throws `conflict` when the id is taken. @source contract DS-02 */
export async function createDataset(ctx: TenantCtx, dataset: Omit<NewDataset, 'createdBy'>): Promise<DatasetRow> {
  audited(ctx, dataset.id, { name: dataset.name })
  return transaction(ctx, async (tx) => {
    if (!(await insertDataset(tx, ctx.tenant.id, { ...dataset, createdBy: ctx.actor.email })))
      throw conflict('A dataset with this id exists already.', { detail: { reason: 'id_taken', id: dataset.id } })
    return (await findDataset(tx, ctx.tenant.id, dataset.id))!
  })
}

export interface Draft {
  name: string
  modality?: string | null
  source?: string | null
}

/** A draft gets an id that tells its name. @source contract DS-03 */
export const createDraft = (ctx: TenantCtx, draft: Draft): Promise<DatasetRow> =>
  createDataset(ctx, { id: draftId(draft.name), ...draft })

/** At most 63 characters: what is left of the name in Latin letters, and six that nobody else has. */
export function draftId(name: string): string {
  const slug = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 48)
  return `${slug || 'dataset'}-${randomBytes(4).readUInt32BE().toString(36).padStart(7, '0').slice(-6)}`
}

export interface DatasetPatch {
  name?: string | null
  source?: string | null
  modality?: string | null
}

/** Null clears source and modality and leaves the name; a frozen dataset may be renamed, for its files stay. */
export async function updateDataset(ctx: TenantCtx, id: string, patch: DatasetPatch): Promise<DatasetRow> {
  const { name, ...rest } = patch
  audited(ctx, id, { changed: Object.keys(patch) })
  return transaction(ctx, async (tx) => {
    await requireDataset(tx, ctx, id)
    await changeDataset(tx, ctx.tenant.id, id, { ...rest, ...(name ? { name } : {}) })
    return (await findDataset(tx, ctx.tenant.id, id))!
  })
}

/** Removes the dataset, its files and what is under way on it. @source contract DS-06, B5.8 */
export async function deleteDataset(ctx: TenantCtx, id: string, force: boolean): Promise<void> {
  audited(ctx, id, { force })
  const uploads = await transaction(ctx, async (tx) => {
    const dataset = await requireDataset(tx, ctx, id)
    await requireDeletable(tx, ctx, dataset, force)
    const live = await liveUploadsOf(tx, ctx.tenant.id, id)
    const runs = [dataset.syncRunId, ...live.map((upload) => upload.runId)].filter((run) => run !== null)
    for (const run of runs) await cancelRun(tx, run, 'The dataset was deleted.')
    await removeDataset(tx, ctx.tenant.id, id)
    return live
  })
  for (const upload of uploads) await removeUploadFolder(ctx, upload.id)
}

/** Throws `conflict` with `detail.reason`. @source contract PR-32 */
export async function freezeDataset(ctx: TenantCtx, id: string): Promise<DatasetRow> {
  audited(ctx, id)
  return transaction(ctx, async (tx) => {
    const dataset = await requireDataset(tx, ctx, id)
    const obstacle = freezeObstacle(await readFacts(tx, dataset))
    if (obstacle) throw conflict(freezeObstacles[obstacle], { detail: { reason: obstacle } })
    const digest = await datasetDigest(tx, ctx.tenant.id, id)
    await changeDataset(tx, ctx.tenant.id, id, { digest, frozenAt: ctx.clock.now() })
    await settleDataset(tx, ctx.tenant.id, id)
    return (await findDataset(tx, ctx.tenant.id, id))!
  })
}

const digestPage = 10_000

/**
 * SHA-256 over one line of JSON per file, `[path, digest, label, split]`, in the byte order of the paths: the same
 * files with the same labels give the same digest anywhere.
 */
export async function datasetDigest(tx: Tx, tenantId: string, id: string): Promise<string> {
  const hash = createHash('sha256')
  let after = ''
  for (;;) {
    const rows = await listSamples(tx, tenantId, id, after, digestPage)
    for (const { path, digest, label, split } of rows) hash.update(`${JSON.stringify([path, digest, label, split])}\n`)
    if (rows.length < digestPage) return `sha256:${hash.digest('hex')}`
    after = rows.at(-1)!.path
  }
}

export async function listDatasetUsage(ctx: TenantCtx, id: string) {
  await getDataset(ctx, id)
  return read(ctx, (tx) => listUsage(tx, ctx.tenant.id, id))
}
