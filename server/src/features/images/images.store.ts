import type { Tx } from '../../platform/db/transaction.ts'
import { buildingStates, type ImageState } from './images.states.ts'

export interface ImageError {
  message: string
  step: string | null
}

export interface ImageRow {
  id: string
  tenantId: string
  modelId: string
  modelName: string
  modelVersion: number
  builderTag: string
  state: ImageState
  progress: number
  runId: string
  repository: string | null
  tag: string | null
  digest: string | null
  sizeBytes: number | null
  error: ImageError | null
  createdBy: string
  createdAt: Date
  endedAt: Date | null
}

export type NewImage = Pick<
  ImageRow,
  'id' | 'modelId' | 'modelName' | 'modelVersion' | 'builderTag' | 'runId' | 'createdBy'
>

/** The newest image of a version, whatever became of it. */
export async function findNewestImage(
  tx: Tx,
  tenantId: string,
  { modelId, version }: { modelId: string; version: number },
): Promise<Pick<ImageRow, 'id' | 'state' | 'error'> | null> {
  const row = await tx
    .selectFrom('modelImages')
    .select(['id', 'state', 'error'])
    .where('tenantId', '=', tenantId)
    .where('modelId', '=', modelId)
    .where('modelVersion', '=', version)
    .orderBy('createdAt', 'desc')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
  return (row as Pick<ImageRow, 'id' | 'state' | 'error'> | undefined) ?? null
}

/** False when a build of the same version by the same builder is under way. */
export async function insertImage(tx: Tx, tenantId: string, image: NewImage): Promise<boolean> {
  const inserted = await tx
    .insertInto('modelImages')
    .values({ ...image, tenantId })
    .onConflict((oc) =>
      oc
        .columns(['tenantId', 'modelId', 'modelVersion', 'builderTag'])
        .where('state', 'in', [...buildingStates])
        .doNothing(),
    )
    .executeTakeFirst()
  return Number(inserted.numInsertedOrUpdatedRows) > 0
}

export async function findImage(tx: Tx, tenantId: string, id: string): Promise<ImageRow | undefined> {
  const row = await tx
    .selectFrom('modelImages')
    .selectAll()
    .where('tenantId', '=', tenantId)
    .where('id', '=', id)
    .executeTakeFirst()
  return row as ImageRow | undefined
}

/** Newest first; the model's name in any case. */
export async function listImages(
  tx: Tx,
  tenantId: string,
  filter: { modelName?: string | undefined; modelVersion?: number | undefined },
): Promise<ImageRow[]> {
  let query = tx.selectFrom('modelImages').selectAll().where('tenantId', '=', tenantId)
  if (filter.modelName !== undefined)
    query = query.where((eb) => eb(eb.fn('lower', ['modelName']), '=', filter.modelName!.toLowerCase()))
  if (filter.modelVersion !== undefined) query = query.where('modelVersion', '=', filter.modelVersion)
  return (await query.orderBy('createdAt', 'desc').orderBy('id').execute()) as ImageRow[]
}

export type ImageChange = Partial<
  Pick<ImageRow, 'state' | 'progress' | 'repository' | 'tag' | 'digest' | 'sizeBytes' | 'endedAt'>
> & { error?: ImageError | null }

/** Changes an image whose build has not ended; one that has stays as it is. */
export async function updateImage(tx: Tx, imageId: string, { error, ...change }: ImageChange): Promise<void> {
  await tx
    .updateTable('modelImages')
    .set({ ...change, ...(error === undefined ? {} : { error: error && JSON.stringify(error) }) })
    .where('id', '=', imageId)
    .where('state', 'in', [...buildingStates])
    .execute()
}

export async function deleteImage(tx: Tx, tenantId: string, id: string): Promise<void> {
  await tx.deleteFrom('modelImages').where('tenantId', '=', tenantId).where('id', '=', id).execute()
}

export async function countBuilding(tx: Tx, tenantId: string): Promise<number> {
  const row = await tx
    .selectFrom('modelImages')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('tenantId', '=', tenantId)
    .where('state', 'in', [...buildingStates])
    .executeTakeFirstOrThrow()
  return Number(row.count)
}

export async function countImages(tx: Tx, tenantId: string): Promise<Record<string, number>> {
  const { count } = await tx
    .selectFrom('modelImages')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('tenantId', '=', tenantId)
    .executeTakeFirstOrThrow()
  return { images: Number(count) }
}
