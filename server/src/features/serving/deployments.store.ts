import { pageAndTotal } from '../../platform/db/pages.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import type { PageQuery } from '../../platform/http/lists.ts'
import type { EndpointRef, Served } from './endpoints.store.ts'
import type { DeploymentAction, DeploymentState } from './serving.states.ts'

export interface DeploymentError {
  message: string
  step: string | null
  reason: string | null
}

export interface DeploymentRow {
  id: string
  tenantId: string
  endpointId: string
  endpoint: string
  action: DeploymentAction
  state: DeploymentState
  runId: string
  generation: number
  /** What it set; of these `replicas` and `imageId` are shown. */
  wanted: Served
  /** What it goes back to when it fails; null when there is nothing to go back to. */
  previous: Served | null
  error: DeploymentError | null
  createdBy: string
  createdAt: Date
  endedAt: Date | null
}

export type NewDeployment = Omit<DeploymentRow, 'state' | 'error' | 'createdAt' | 'endedAt'>

export async function insertDeployment(tx: Tx, { wanted, previous, ...deployment }: NewDeployment): Promise<void> {
  await tx
    .insertInto('servingDeployments')
    .values({ ...deployment, wanted: JSON.stringify(wanted), previous: previous && JSON.stringify(previous) })
    .execute()
}

export async function findDeployment(tx: Tx, id: string): Promise<DeploymentRow | undefined> {
  const query = tx.selectFrom('servingDeployments').selectAll().where('id', '=', id)
  return (await query.executeTakeFirst()) as DeploymentRow | undefined
}

/** Whether the deployment that made the endpoint what it is has not ended. */
export async function isRolling(tx: Tx, { tenantId, id }: EndpointRef, generation: number): Promise<boolean> {
  const row = await tx
    .selectFrom('servingDeployments')
    .select('id')
    .where('tenantId', '=', tenantId)
    .where('endpointId', '=', id)
    .where('generation', '=', generation)
    .where('state', 'in', ['PENDING', 'ROLLING'])
    .executeTakeFirst()
  return row !== undefined
}

export interface DeploymentFilter {
  endpoint?: string | undefined
  state?: DeploymentState | undefined
}

/** Newest first. */
export async function listDeployments(tx: Tx, tenantId: string, filter: DeploymentFilter, page: PageQuery) {
  let query = tx.selectFrom('servingDeployments').where('tenantId', '=', tenantId)
  if (filter.endpoint !== undefined) query = query.where('endpoint', '=', filter.endpoint)
  if (filter.state !== undefined) query = query.where('state', '=', filter.state)
  const items = query
    .selectAll()
    .orderBy('createdAt', 'desc')
    .orderBy('id')
    .limit(page.page_size)
    .offset((page.page - 1) * page.page_size)
    .$castTo<DeploymentRow>()
  return pageAndTotal(query, items)
}

export async function updateDeployment(
  tx: Tx,
  id: string,
  { error, ...change }: { state: DeploymentState; error?: DeploymentError; endedAt?: Date },
): Promise<void> {
  await tx
    .updateTable('servingDeployments')
    .set({ ...change, ...(error ? { error: JSON.stringify(error) } : {}) })
    .where('id', '=', id)
    .execute()
}
