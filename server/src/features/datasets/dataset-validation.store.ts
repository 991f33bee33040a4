import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { FindingCollector } from './finding-collector.ts'
import type { FormatFile, TaskType } from './formats/dataset-format.ts'
import type { Inspection } from './image-inspection.ts'
import type { Split } from './splits.ts'
import { storableJson } from './storable-text.ts'
import type { Statistics, ValidationReport, Variable } from './validation-report.ts'

/** A dataset in the scope of a validation. */
export interface Target {
  tenantId: string
  datasetId: string
}

export const filesOf = (tx: Tx, { tenantId, datasetId }: Target) =>
  tx.selectFrom('datasetFiles').where('tenantId', '=', tenantId).where('datasetId', '=', datasetId)

/** Images that nobody has looked into yet. */
export const listPendingImages = (tx: Tx, target: Target, limit: number) =>
  filesOf(tx, target)
    .select(['id', 'path', 'digest', 'size'])
    .where('status', '=', 'PENDING')
    .where('kind', '=', 'image')
    .orderBy('id')
    .limit(limit)
    .execute()

export async function countPendingImages(tx: Tx, { tenantId, datasetId }: Target): Promise<number> {
  const { total } = await tx
    .selectFrom('datasetFileCounts')
    .select(sql<number>`coalesce(sum(files), 0)::bigint`.as('total'))
    .where('tenantId', '=', tenantId)
    .where('datasetId', '=', datasetId)
    .where('kind', '=', 'image')
    .where('status', '=', 'PENDING')
    .executeTakeFirstOrThrow()
  return total
}

/** What can not be decoded alone has nothing to be looked into: its format reads it. */
export async function acceptOtherFiles(tx: Tx, { tenantId, datasetId }: Target): Promise<void> {
  await sql`
    update dataset_files set status = 'VALID'
    where tenant_id = ${tenantId} and dataset_id = ${datasetId} and status = 'PENDING' and kind <> 'image'`.execute(tx)
}

export async function resetInspections(tx: Tx, { tenantId, datasetId }: Target): Promise<void> {
  await sql`
    update dataset_files set status = 'PENDING' where tenant_id = ${tenantId} and dataset_id = ${datasetId}`.execute(tx)
}

/** Keeps what was found out, unless a file got other content meanwhile. */
export async function saveInspections(
  tx: Tx,
  { tenantId, datasetId }: Target,
  found: (Inspection & { id: string; digest: string })[],
): Promise<void> {
  const column = (key: keyof (typeof found)[number]) => found.map((one) => one[key])
  await sql`
    update dataset_files f set status = n.status, media_type = n.media_type, width = n.width, height = n.height,
      fingerprint = n.fingerprint, fault_code = n.fault_code, fault = n.fault
    from unnest(${column('id')}::uuid[], ${column('digest')}::text[], ${column('status')}::text[],
      ${column('mediaType')}::text[], ${column('width')}::int[], ${column('height')}::int[],
      ${column('fingerprint')}::text[], ${column('faultCode')}::text[], ${column('fault')}::text[])
      as n (id, digest, status, media_type, width, height, fingerprint, fault_code, fault)
    where f.tenant_id = ${tenantId} and f.dataset_id = ${datasetId} and f.id = n.id and f.digest = n.digest`.execute(tx)
}

/** Files after a path, in path order. */
export function listFormatFiles(
  tx: Tx,
  target: Target,
  after: string,
  limit: number,
  kinds: string[] | null = null,
): Promise<FormatFile[]> {
  let query = filesOf(tx, target)
    .select(['id', 'path', 'kind', 'digest', 'size', 'width', 'height', 'status'])
    .where('path', '>', after)
  if (kinds) query = query.where('kind', 'in', kinds)
  return query.orderBy('path').limit(limit).execute()
}

export interface SampleUpdate {
  id: string
  label: string | null
  split: Split | null
  annotated: boolean
}

export async function saveSamples(tx: Tx, { tenantId, datasetId }: Target, samples: SampleUpdate[]): Promise<void> {
  const column = (key: keyof SampleUpdate) => samples.map((sample) => sample[key])
  await sql`
    update dataset_files f set label = n.label, split = n.split, annotated = n.annotated
    from unnest(${column('id')}::uuid[], ${column('label')}::text[], ${column('split')}::text[],
      ${column('annotated')}::boolean[]) as n (id, label, split, annotated)
    where f.tenant_id = ${tenantId} and f.dataset_id = ${datasetId} and f.id = n.id
      and (f.label, f.split, f.annotated) is distinct from (n.label, n.split, n.annotated)`.execute(tx)
}

export async function markAnnotations(tx: Tx, { tenantId, datasetId }: Target, files: { id: string }[]): Promise<void> {
  await sql`
    update dataset_files set kind = 'annotation'
    where tenant_id = ${tenantId} and dataset_id = ${datasetId} and kind <> 'annotation'
      and id = any(${files.map((file) => file.id)}::uuid[])`.execute(tx)
}

/** Forgets what an earlier reading said, where it said anything. */
export async function forgetSamples(tx: Tx, { tenantId, datasetId }: Target): Promise<void> {
  await sql`delete from dataset_objects where tenant_id = ${tenantId} and dataset_id = ${datasetId}`.execute(tx)
  await sql`
    update dataset_files set label = null, split = null, annotated = false
    where tenant_id = ${tenantId} and dataset_id = ${datasetId}
      and (label is not null or split is not null or annotated)`.execute(tx)
}

export interface ObjectInsert {
  fileId: string
  ordinal: number
  class: string
  shape: string
  geometry: unknown
}

export async function insertObjects(tx: Tx, { tenantId, datasetId }: Target, objects: ObjectInsert[]): Promise<void> {
  const column = (key: keyof ObjectInsert) => objects.map((object) => object[key])
  const geometry = objects.map((object) => storableJson(object.geometry))
  await sql`
    insert into dataset_objects (tenant_id, dataset_id, file_id, ordinal, class, shape, geometry)
    select ${tenantId}, ${datasetId}, n.* from unnest(${column('fileId')}::uuid[], ${column('ordinal')}::int[],
      ${column('class')}::text[], ${column('shape')}::text[], ${geometry}::jsonb[]) as n
    on conflict (tenant_id, dataset_id, file_id, ordinal) do nothing`.execute(tx)
}

export interface FaultyFile {
  id: string
  path: string
  faultCode: string
  fault: string
}

export const listFaultyFiles = (tx: Tx, target: Target, after: string, limit: number): Promise<FaultyFile[]> =>
  filesOf(tx, target)
    .select(['id', 'path', 'faultCode', 'fault'])
    .where('faultCode', 'is not', null)
    .where('path', '>', after)
    .orderBy('path')
    .limit(limit)
    .$castTo<FaultyFile>()
    .execute()

/**
 * Marks every image but the first of those with the same bytes, in path order, some at a time; false when there is
 * nothing left to mark. Two statements, because a join of the table with itself is planned badly while it is new.
 */
export async function markDuplicates(tx: Tx, { tenantId, datasetId }: Target, limit: number): Promise<boolean> {
  const { rows } = await sql<{ id: string; status: string }>`
    select id, case when rank > 1 then 'DUPLICATE' else 'VALID' end as status from (
      select id, status, row_number() over (partition by digest order by path) as rank
      from dataset_files where tenant_id = ${tenantId} and dataset_id = ${datasetId} and kind = 'image'
        and status in ('VALID', 'DUPLICATE')
    ) ranked
    where (rank > 1) <> (status = 'DUPLICATE') limit ${limit}`.execute(tx)
  for (const status of ['VALID', 'DUPLICATE']) {
    const ids = rows.filter((row) => row.status === status).map((row) => row.id)
    if (ids.length > 0)
      await sql`
        update dataset_files set status = ${status}
        where tenant_id = ${tenantId} and dataset_id = ${datasetId} and id = any(${ids}::uuid[])`.execute(tx)
  }
  return rows.length > 0
}

export interface Outcome {
  revision: number
  status: 'PASSED' | 'PASSED_WITH_WARNINGS' | 'FAILED'
  report: ValidationReport
  statistics: Statistics
  format: string | null
  classes: string[]
  tasks: TaskType[]
  splits: Record<string, number>
  variables: Variable[] | null
  recordCount: number
}

export async function saveOutcome(tx: Tx, { tenantId, datasetId }: Target, outcome: Outcome): Promise<void> {
  const { variables, status } = outcome
  await tx
    .updateTable('datasets')
    .set({
      validationStatus: status,
      validatedRevision: outcome.revision,
      validation: storableJson(outcome.report),
      statistics: storableJson(outcome.statistics),
      format: outcome.format,
      classes: storableJson(outcome.classes),
      tasks: outcome.tasks,
      splits: storableJson(outcome.splits),
      recordCount: outcome.recordCount,
      ...(variables ? { variables: storableJson(variables) } : {}),
    })
    .where('tenantId', '=', tenantId)
    .where('id', '=', datasetId)
    .execute()
}

/** A validation that could not be brought to its end is a report too: the dataset must not wait for it for ever. */
export async function saveFailure(
  tx: Tx,
  { tenantId, datasetId }: Target,
  dataset: { revision: number; fileCount: number },
  message: string,
): Promise<void> {
  const findings = new FindingCollector()
  findings.add({ code: 'validation_aborted', message })
  const report = findings.report({ checkedAt: new Date(), total: dataset.fileCount, ok: 0, matchRate: null })
  await tx
    .updateTable('datasets')
    .set({
      validationStatus: 'FAILED',
      validatedRevision: dataset.revision,
      validation: storableJson(report),
    })
    .where('tenantId', '=', tenantId)
    .where('id', '=', datasetId)
    .execute()
}
