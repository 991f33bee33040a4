import type { Tx } from '../../platform/db/transaction.ts'
import type { EndpointRef, Failure } from './endpoints.store.ts'
import type { ReplicaState } from './serving.states.ts'

export interface ReplicaRow {
  id: string
  tenantId: string
  endpointId: string
  imageDigest: string
  state: ReplicaState
  /** 0 before the first start. */
  attempt: number
  failures: number
  address: string | null
  failure: Failure | null
  since: Date
  until: Date | null
  createdAt: Date
}

export type NewReplica = Pick<
  ReplicaRow,
  'id' | 'tenantId' | 'endpointId' | 'imageDigest' | 'since' | 'state' | 'attempt'
>

export async function insertReplicas(tx: Tx, replicas: NewReplica[]): Promise<void> {
  if (replicas.length > 0) await tx.insertInto('servingReplicas').values(replicas).execute()
}

/** Oldest first. */
export async function listReplicas(tx: Tx, { tenantId, id }: EndpointRef): Promise<ReplicaRow[]> {
  const query = replicasOf(tx, tenantId).where('endpointId', '=', id)
  return (await query.orderBy('createdAt').orderBy('id').execute()) as ReplicaRow[]
}

/** Of every endpoint of a tenant, oldest first. */
export async function listTenantReplicas(tx: Tx, tenantId: string): Promise<ReplicaRow[]> {
  return (await replicasOf(tx, tenantId).orderBy('createdAt').orderBy('id').execute()) as ReplicaRow[]
}

const replicasOf = (tx: Tx, tenantId: string) =>
  tx.selectFrom('servingReplicas').selectAll().where('tenantId', '=', tenantId)

export async function findReplica(tx: Tx, id: string): Promise<ReplicaRow | undefined> {
  const query = tx.selectFrom('servingReplicas').selectAll().where('id', '=', id)
  return (await query.executeTakeFirst()) as ReplicaRow | undefined
}

export type ReplicaChange = Partial<
  Pick<ReplicaRow, 'state' | 'attempt' | 'failures' | 'address' | 'failure' | 'since' | 'until'>
>

export async function updateReplica(tx: Tx, id: string, { failure, ...change }: ReplicaChange): Promise<void> {
  await tx
    .updateTable('servingReplicas')
    .set({ ...change, ...(failure === undefined ? {} : { failure: failure && JSON.stringify(failure) }) })
    .where('id', '=', id)
    .execute()
}

export async function deleteReplica(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('servingReplicas').where('id', '=', id).execute()
}

/** The present attempt of each of these replicas that still exist, over all tenants. */
export async function findAttempts(tx: Tx, ids: string[]): Promise<Map<string, number>> {
  if (ids.length === 0) return new Map()
  const rows = await tx.selectFrom('servingReplicas').select(['id', 'attempt']).where('id', 'in', ids).execute()
  return new Map(rows.map(({ id, attempt }) => [id, attempt]))
}
