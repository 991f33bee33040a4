import { sql } from 'kysely'
import { pageAndTotal } from '../../platform/db/pages.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { likePattern } from '../../platform/http/lists.ts'
import type { StepView } from '../../platform/runs/runs.ts'
import type { Hyperparameters } from '../catalog/catalog.api.ts'
import type { Config } from './experiment-config.schema.ts'
import { type ExperimentState, endedStates } from './experiments.states.ts'
import type { JobStep } from './step-plan.ts'

export interface Artifact {
  /** Relative to the output folder of the job. */
  path: string
  kind: string
  size: number
  sha256: string
}

export interface JobResult {
  state: 'succeeded' | 'stopped'
  metrics: Record<string, number>
  best_epoch: number
}

export interface ExperimentError {
  step: string | null
  reason: string
  message: string
  remedy: string | null
  exit_code: number | null
  log_tail: string[]
}

interface JsonColumns {
  state: ExperimentState
  config: Config
  classes: string[]
  hyperparameters: Hyperparameters
  jobSteps: JobStep[]
  artifacts: Artifact[]
  result: JobResult | null
  fault: { message: string; remedy: string } | null
  environment: Record<string, string> | null
  launch: unknown
  error: ExperimentError | null
}

type Selected = NonNullable<Awaited<ReturnType<typeof selectExperiment>>>
export type ExperimentRow = Omit<Selected, keyof JsonColumns> & JsonColumns

/** With the steps of its run. */
export interface ExperimentWithSteps {
  experiment: ExperimentRow
  runSteps: StepView[]
}

const selectExperiment = (tx: Tx, id: string) =>
  tx.selectFrom('experiments').selectAll().where('id', '=', id).executeTakeFirst()

export async function findExperiment(tx: Tx, tenantId: string, id: string): Promise<ExperimentRow | undefined> {
  const row = tx.selectFrom('experiments').selectAll().where('tenantId', '=', tenantId).where('id', '=', id)
  return (await row.executeTakeFirst()) as ExperimentRow | undefined
}

/** The row, held until the transaction ends; in a system transaction of any tenant. */
export async function lockExperiment(tx: Tx, id: string): Promise<ExperimentRow | undefined> {
  const row = tx.selectFrom('experiments').selectAll().where('id', '=', id).forUpdate()
  return (await row.executeTakeFirst()) as ExperimentRow | undefined
}

type NewExperiment = Pick<
  ExperimentRow,
  | 'id'
  | 'tenantId'
  | 'name'
  | 'config'
  | 'preset'
  | 'task'
  | 'framework'
  | 'model'
  | 'datasetId'
  | 'datasetName'
  | 'datasetDigest'
  | 'classes'
  | 'hyperparameters'
  | 'jobSteps'
  | 'runId'
  | 'trackerRunId'
  | 'trackerExperimentId'
  | 'createdBy'
  | 'createdById'
>

export async function insertExperiment(tx: Tx, row: NewExperiment): Promise<void> {
  const { config, classes, hyperparameters, jobSteps } = row
  await tx
    .insertInto('experiments')
    .values({
      ...row,
      config: JSON.stringify(config),
      classes: JSON.stringify(classes),
      hyperparameters: JSON.stringify(hyperparameters),
      jobSteps: JSON.stringify(jobSteps),
    })
    .execute()
}

const jsonColumns = ['jobSteps', 'artifacts', 'result', 'fault', 'environment', 'launch', 'error'] as const

export type ExperimentChange = Partial<
  Pick<
    ExperimentRow,
    | 'state'
    | 'percent'
    | 'epoch'
    | 'epochs'
    | 'registeredName'
    | 'registeredVersion'
    | 'startedAt'
    | 'endedAt'
    | 'stopRequestedAt'
    | 'killRequestedAt'
    | (typeof jsonColumns)[number]
  >
>

export async function updateExperiment(tx: Tx, id: string, change: ExperimentChange): Promise<void> {
  await tx.updateTable('experiments').set(columnsOf(change)).where('id', '=', id).execute()
}

/** Moves on only from one of these states; whether it did. */
export async function moveExperiment(
  tx: Tx,
  id: string,
  from: readonly ExperimentState[],
  to: ExperimentState,
): Promise<boolean> {
  const started = to === 'STAGING' ? { startedAt: sql<Date>`coalesce(started_at, now())` } : {}
  const row = await tx
    .updateTable('experiments')
    .set({ state: to, ...started })
    .where('id', '=', id)
    .where('state', 'in', from)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/**
 * Takes over what the job said between two positions of its event file, if nobody else did. Null when somebody did;
 * otherwise when a stop was asked for.
 */
export async function advanceEvents(
  tx: Tx,
  id: string,
  range: { from: number; to: number },
  change: ExperimentChange,
): Promise<{ stopRequestedAt: Date | null } | null> {
  const row = await tx
    .updateTable('experiments')
    .set({ ...columnsOf(change), eventsOffset: range.to })
    .where('id', '=', id)
    .where('eventsOffset', '=', range.from)
    .returning('stopRequestedAt')
    .executeTakeFirst()
  return row ?? null
}

function columnsOf(change: ExperimentChange) {
  const json = jsonColumns
    .filter((column) => change[column] !== undefined)
    .map((column) => [column, change[column] === null ? null : JSON.stringify(change[column])])
  return { ...change, ...Object.fromEntries(json) } as Record<string, never>
}

export interface ListFilter {
  status?: ExperimentState
  q?: string
  key: string
  direction: 'asc' | 'desc'
  page: number
  page_size: number
}

const sortColumns = { created_at: 'createdAt', name: 'name', status: 'state' } as const

export async function listExperiments(tx: Tx, tenantId: string, filter: ListFilter) {
  let query = tx.selectFrom('experiments').where('tenantId', '=', tenantId)
  if (filter.status) query = query.where('state', '=', filter.status)
  if (filter.q?.trim()) {
    const pattern = likePattern(filter.q)
    const columns = [sql`name`, sql`id::text`, sql`model`, sql`dataset_name`, sql`created_by`]
    query = query.where((eb) => eb.or(columns.map((column) => eb(column, 'ilike', pattern))))
  }
  const column = sortColumns[filter.key as keyof typeof sortColumns]
  const items = query
    .selectAll()
    .orderBy(column, filter.direction)
    .orderBy('id')
    .limit(filter.page_size)
    .offset((filter.page - 1) * filter.page_size)
    .$castTo<ExperimentRow>()
  return pageAndTotal(query, items)
}

/** The experiment with its run: steps and log go too. */
export async function deleteExperiment(tx: Tx, tenantId: string, experiment: ExperimentRow): Promise<void> {
  await tx.deleteFrom('experiments').where('tenantId', '=', tenantId).where('id', '=', experiment.id).execute()
  await tx.deleteFrom('runs').where('tenantId', '=', tenantId).where('id', '=', experiment.runId).execute()
}

export async function listExperimentIds(tx: Tx, tenantId: string): Promise<string[]> {
  const rows = await tx.selectFrom('experiments').select('id').where('tenantId', '=', tenantId).execute()
  return rows.map(({ id }) => id)
}

/** Experiments of every tenant that have not ended, oldest first. */
export async function listLiveExperiments(tx: Tx) {
  return tx
    .selectFrom('experiments as e')
    .innerJoin('tenants as t', 't.id', 'e.tenantId')
    .select(['e.id', 'e.name', 'e.state', 'e.startedAt', 't.code as tenantCode'])
    .where('e.state', 'not in', endedStates)
    .orderBy('e.createdAt')
    .execute()
}

/** The states of those of these experiments that exist. */
export async function findExperimentIds(tx: Tx, ids: string[]): Promise<Map<string, ExperimentState>> {
  if (ids.length === 0) return new Map()
  const rows = await tx.selectFrom('experiments').select(['id', 'state']).where('id', 'in', ids).execute()
  return new Map(rows.map((row) => [row.id, row.state as ExperimentState]))
}

/** The newest environment a training ran in. */
export async function findLastEnvironment(tx: Tx) {
  const row = await tx
    .selectFrom('experiments')
    .select('environment')
    .where('environment', 'is not', null)
    .orderBy('createdAt', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row as Pick<ExperimentRow, 'environment'> | undefined
}

export const findTenantCode = async (tx: Tx, tenantId: string): Promise<string> =>
  (await tx.selectFrom('tenants').select('code').where('id', '=', tenantId).executeTakeFirstOrThrow()).code
