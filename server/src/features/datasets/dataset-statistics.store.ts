import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { filesOf, type Target } from './dataset-validation.store.ts'
import type { ClassCount, Range } from './validation-report.ts'

/** What shows when the files of a dataset are compared and counted. */

/** A group of images with the same bytes; at most three of them are named. */
export interface IdenticalImages {
  paths: string[]
  ids: string[]
  splits: string[]
  /** Images of all groups beyond the first of each. */
  copies: number
  /** Groups that stand in more than one split. */
  leaks: number
}

/** Groups of images with the same bytes, at most `limit`; those in several splits come first. */
export async function listIdentical(
  tx: Tx,
  { tenantId, datasetId }: Target,
  limit: number,
): Promise<IdenticalImages[]> {
  const { rows } = await sql<IdenticalImages>`
    select (array_agg(path order by path))[1:3] as paths, (array_agg(id order by path))[1:3] as ids,
      array_remove(array_agg(distinct split), null) as splits, (sum(count(*) - 1) over ())::bigint as copies,
      (sum(case when count(distinct split) > 1 then 1 else 0 end) over ())::bigint as leaks
    from dataset_files where tenant_id = ${tenantId} and dataset_id = ${datasetId} and kind = 'image'
      and status in ('VALID', 'DUPLICATE')
    group by digest having count(*) > 1 order by count(distinct split) desc, min(path) limit ${limit}`.execute(tx)
  return rows
}

/** An image that can be compared with others. */
export interface ComparedImage {
  id: string
  path: string
  split: string | null
  fingerprint: string
  width: number
  height: number
}

/** Images after a path that differ in bytes from all before, in path order. */
export const listCompared = (tx: Tx, target: Target, after: string, limit: number): Promise<ComparedImage[]> =>
  filesOf(tx, target)
    .select(['id', 'path', 'split', 'fingerprint', 'width', 'height'])
    .where('kind', '=', 'image')
    .where('status', '=', 'VALID')
    .where('fingerprint', 'is not', null)
    .where('path', '>', after)
    .orderBy('path')
    .limit(limit)
    .$castTo<ComparedImage>()
    .execute()

/** Images that no annotation speaks of, at most `limit`, and how many there are. */
export async function listUnannotated(tx: Tx, target: Target, limit: number) {
  const query = filesOf(tx, target).where('kind', '=', 'image').where('annotated', '=', false)
  const { total } = await query.select(({ fn }) => fn.countAll<number>().as('total')).executeTakeFirstOrThrow()
  return { total, files: await query.select(['id', 'path']).orderBy('path').limit(limit).execute() }
}

/** Images of which an annotation says that nothing is on them. */
export async function listEmptyAnnotations(tx: Tx, target: Target, limit: number) {
  const query = filesOf(tx, target)
    .where('kind', '=', 'image')
    .where('annotated', '=', true)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('datasetObjects as o')
            .select('o.fileId')
            .whereRef('o.tenantId', '=', 'datasetFiles.tenantId')
            .whereRef('o.datasetId', '=', 'datasetFiles.datasetId')
            .whereRef('o.fileId', '=', 'datasetFiles.id'),
        ),
      ),
    )
  const { total } = await query.select(({ fn }) => fn.countAll<number>().as('total')).executeTakeFirstOrThrow()
  return { total, files: await query.select(['id', 'path']).orderBy('path').limit(limit).execute() }
}

/** Samples and objects per class, as labels of whole images or as objects on them. */
export async function countClasses(tx: Tx, { tenantId, datasetId }: Target): Promise<ClassCount[]> {
  const { rows } = await sql<ClassCount>`
    with shown as (
      select label as name, split, count(*) as samples, 0::bigint as objects
      from dataset_files where tenant_id = ${tenantId} and dataset_id = ${datasetId} and label is not null
      group by 1, 2
      union all
      select o.class, f.split, count(distinct o.file_id), count(*)
      from dataset_objects o
      join dataset_files f on (f.tenant_id, f.dataset_id, f.id) = (o.tenant_id, o.dataset_id, o.file_id)
      where o.tenant_id = ${tenantId} and o.dataset_id = ${datasetId} group by 1, 2
    )
    select name, sum(samples)::bigint as samples, sum(objects)::bigint as objects,
      coalesce(jsonb_object_agg(split, samples) filter (where split is not null), '{}') as splits
    from shown group by name`.execute(tx)
  return rows
}

/** Labelled or annotated images per split. */
export async function countSplits(tx: Tx, { tenantId, datasetId }: Target): Promise<Record<string, number>> {
  const { rows } = await sql<{ split: string; samples: number }>`
    select coalesce(split, 'none') as split, count(*) as samples from dataset_files
    where tenant_id = ${tenantId} and dataset_id = ${datasetId} and (label is not null or annotated)
    group by 1`.execute(tx)
  return Object.fromEntries(rows.map(({ split, samples }) => [split, samples]))
}

export async function countShapes(tx: Tx, { tenantId, datasetId }: Target): Promise<Record<string, number>> {
  const { rows } = await sql<{ shape: string; objects: number }>`
    select shape, count(*) as objects from dataset_objects
    where tenant_id = ${tenantId} and dataset_id = ${datasetId} group by 1 order by 1`.execute(tx)
  return Object.fromEntries(rows.map(({ shape, objects }) => [shape, objects]))
}

export async function imageSizes(tx: Tx, { tenantId, datasetId }: Target) {
  const { rows } = await sql<{ images: number; annotated: number; width: Range | null; height: Range | null }>`
    select count(*) as images, count(*) filter (where annotated) as annotated,
      case when count(width) > 0 then json_build_object('min', min(width), 'max', max(width),
        'median', percentile_disc(0.5) within group (order by width)) end as width,
      case when count(height) > 0 then json_build_object('min', min(height), 'max', max(height),
        'median', percentile_disc(0.5) within group (order by height)) end as height
    from dataset_files where tenant_id = ${tenantId} and dataset_id = ${datasetId} and kind = 'image'`.execute(tx)
  return rows[0]!
}
