import { type Expression, type Selectable, type SqlBool, sql } from 'kysely'
import type { DB } from '../../platform/db/database.generated.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import type { ListQuery } from '../../platform/http/lists.ts'
import { likePattern } from '../../platform/http/lists.ts'
import { type DatasetFacts, type DatasetState, stateOf, type ValidationState } from './datasets.states.ts'
import { pageWindow } from './page-window.ts'
import type { Statistics, ValidationReport, Variable } from './validation-report.ts'

type PlainRow = Selectable<DB['datasets']>

/** A dataset with what its JSON columns hold. */
export interface DatasetRow
  extends Omit<
    PlainRow,
    'state' | 'validationStatus' | 'keyFields' | 'variables' | 'validation' | 'statistics' | 'classes' | 'splits'
  > {
  state: DatasetState
  validationStatus: ValidationState
  keyFields: Record<string, unknown>[]
  variables: Variable[]
  validation: ValidationReport | null
  statistics: Statistics | null
  classes: string[]
  splits: Record<string, number>
}

const select = (tx: Tx, tenantId: string, id: string) =>
  tx.selectFrom('datasets').selectAll().where('tenantId', '=', tenantId).where('id', '=', id).$castTo<DatasetRow>()

export const findDataset = (tx: Tx, tenantId: string, id: string): Promise<DatasetRow | undefined> =>
  select(tx, tenantId, id).executeTakeFirst()

/** The row, locked until the transaction ends: changes of one dataset and its files come one after the other. */
export const lockDataset = (tx: Tx, tenantId: string, id: string): Promise<DatasetRow | undefined> =>
  select(tx, tenantId, id).forUpdate().executeTakeFirst()

export interface NewDataset {
  id: string
  name: string
  createdBy: string
  source?: string | null
  modality?: string | null
  schemaVersion?: string | null
  format?: string | null
  storageUri?: string | null
  keyFields?: unknown[]
  variables?: unknown[]
  validation?: unknown
  validationStatus?: ValidationState
  recordCount?: number
  sizeBytes?: number
}

/** False when the id is taken. */
export async function insertDataset(tx: Tx, tenantId: string, dataset: NewDataset): Promise<boolean> {
  const { keyFields = [], variables = [], validation, ...plain } = dataset
  const result = await tx
    .insertInto('datasets')
    .values({
      tenantId,
      ...plain,
      keyFields: JSON.stringify(keyFields),
      variables: JSON.stringify(variables),
      validation: validation ? JSON.stringify(validation) : null,
    })
    .onConflict((oc) => oc.columns(['tenantId', 'id']).doNothing())
    .executeTakeFirst()
  return Number(result.numInsertedOrUpdatedRows) === 1
}

export interface DatasetChange {
  name?: string
  source?: string | null
  modality?: string | null
  digest?: string
  frozenAt?: Date
  validationStatus?: ValidationState
  externalSourceId?: string | null
  syncRunId?: string | null
}

export async function updateDataset(tx: Tx, tenantId: string, id: string, change: DatasetChange): Promise<void> {
  await tx
    .updateTable('datasets')
    .set({ ...change, updatedAt: sql`now()` })
    .where('tenantId', '=', tenantId)
    .where('id', '=', id)
    .execute()
}

export async function deleteDataset(tx: Tx, tenantId: string, id: string): Promise<void> {
  await tx.deleteFrom('datasets').where('tenantId', '=', tenantId).where('id', '=', id).execute()
}

/** Notes that the files changed. The caller has the row locked and settles the state afterwards. */
export async function bumpRevision(tx: Tx, tenantId: string, id: string): Promise<void> {
  await tx
    .updateTable('datasets')
    .set({ revision: sql`revision + 1`, updatedAt: sql`now()` })
    .where('tenantId', '=', tenantId)
    .where('id', '=', id)
    .execute()
}

/** What the state of a dataset follows from, read in one go. */
export async function readFacts(tx: Tx, dataset: { tenantId: string; id: string }): Promise<DatasetFacts> {
  const { rows } = await sql<DatasetFacts>`
    select d.frozen_at is not null as frozen, d.sync_run_id is not null as syncing, d.validation_status as validation,
      d.revision > d.validated_revision as stale,
      (select coalesce(sum(files), 0) from dataset_file_counts c
        where c.tenant_id = d.tenant_id and c.dataset_id = d.id)::bigint as files,
      (select count(*) from dataset_uploads u
        where u.tenant_id = d.tenant_id and u.dataset_id = d.id and u.state in ('open', 'assembling')) as uploads
    from datasets d where d.tenant_id = ${dataset.tenantId} and d.id = ${dataset.id}`.execute(tx)
  return rows[0]!
}

/** Brings state and totals in line with the facts; the last thing of every transaction that changes them. */
export async function settleDataset(tx: Tx, tenantId: string, id: string): Promise<void> {
  const facts = await readFacts(tx, { tenantId, id })
  // What a dataset without files of ours says of itself stays as it was declared.
  await sql`
    update datasets d set state = ${stateOf(facts)}, updated_at = now(),
      file_count = case when revision > 0 then t.files else file_count end,
      size_bytes = case when revision > 0 then t.bytes else size_bytes end,
      record_count = case when revision > validated_revision then t.images else record_count end
    from (
      select coalesce(sum(files), 0) as files, coalesce(sum(bytes), 0) as bytes,
        coalesce(sum(files) filter (where kind = 'image'), 0) as images
      from dataset_file_counts where tenant_id = ${tenantId} and dataset_id = ${id}
    ) t
    where d.tenant_id = ${tenantId} and d.id = ${id}`.execute(tx)
}

export interface DatasetFilter extends ListQuery {
  source?: string
  status?: DatasetState
  external_source?: string
}

const listColumns = [
  'id',
  'name',
  'source',
  'modality',
  'format',
  'schemaVersion',
  'storageUri',
  'state',
  'validationStatus',
  'recordCount',
  'fileCount',
  'sizeBytes',
  'tasks',
  'classes',
  'splits',
  'digest',
  'frozenAt',
  'parentId',
  'version',
  'externalSourceId',
  'createdBy',
  'createdAt',
  'updatedAt',
] as const

export type DatasetSummaryRow = Pick<DatasetRow, (typeof listColumns)[number]>

const orderColumns = {
  created_at: 'createdAt',
  name: 'name',
  records: 'recordCount',
  size: 'sizeBytes',
  validation: 'validationStatus',
} as const
export type DatasetOrder = keyof typeof orderColumns

export async function listDatasets(
  tx: Tx,
  tenantId: string,
  filter: DatasetFilter,
  order: { key: string; direction: 'asc' | 'desc' },
): Promise<{ items: DatasetSummaryRow[]; total: number }> {
  let query = tx.selectFrom('datasets').where('tenantId', '=', tenantId)
  if (filter.status) query = query.where('state', '=', filter.status)
  if (filter.source) query = query.where('source', '=', filter.source)
  if (filter.external_source) query = query.where('externalSourceId', '=', filter.external_source)
  if (filter.q?.trim()) query = query.where(await matching(tx, tenantId, filter.q))
  const { total } = await query.select(({ fn }) => fn.countAll<number>().as('total')).executeTakeFirstOrThrow()
  const window = pageWindow(filter, order.direction, total)
  if (!window) return { items: [], total }
  const column = orderColumns[order.key as DatasetOrder]
  // The ids first, from the index alone where there is no search; then only the rows of the page.
  const ids = query.select('id').orderBy(column, window.direction).orderBy('id', window.direction)
  const items = await tx
    .selectFrom('datasets')
    .select(listColumns)
    .where('tenantId', '=', tenantId)
    .where('id', 'in', ids.limit(window.limit).offset(window.offset))
    .orderBy(column, order.direction)
    .orderBy('id', order.direction)
    .$castTo<DatasetSummaryRow>()
    .execute()
  return { items, total }
}

/** Up to here a search hands over what it found; beyond, the list is read in its order until a page is full. */
const foundMax = 2000

async function matching(tx: Tx, tenantId: string, q: string): Promise<Expression<SqlBool>> {
  const pattern = likePattern(q)
  const { rows } = await sql<{ id: string }>`
    select search_datasets(${tenantId}, ${pattern}, ${foundMax + 1}) as id`.execute(tx)
  if (rows.length <= foundMax) return sql<SqlBool>`id = any(${rows.map(({ id }) => id)}::text[])`
  // Everything is in memory where so much is looked at. Without saying so, the narrow index counts as dearer than the rows.
  await sql`set local random_page_cost = 1`.execute(tx)
  // The planner knows nothing of a condition in coalesce and expects that every other row meets it, which is why it walks
  // along the order; of a bare LIKE under row-level security it expects a handful, and would sort all that match.
  return sql<SqlBool>`coalesce(search_text like (select lower(${pattern})), false)`
}

/** For the preview of a tenant's deletion. */
export async function countDatasets(tx: Tx, tenantId: string): Promise<Record<string, number>> {
  const { rows } = await sql<{ datasets: number; files: number }>`
    select count(*) as datasets, coalesce(sum(file_count), 0)::bigint as files
    from datasets where tenant_id = ${tenantId}`.execute(tx)
  return { datasets: rows[0]!.datasets, dataset_files: rows[0]!.files }
}
