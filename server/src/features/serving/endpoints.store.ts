import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import type { Desired, EndpointState } from './serving.states.ts'

/** Why an endpoint or replica does not do what it should. */
export interface Failure {
  message: string
  exitCode: number | null
  signal: string | null
  /** exited, killed, memory, lost, not_started, not_ready */
  reason: string
  /** RFC 3339 */
  at: string
}

/** What a deployment may change. */
export interface Served {
  replicas: number
  imageId: string
  imageDigest: string
  modelId: string
  modelName: string
  modelVersion: number
}

export interface EndpointRow extends Served {
  id: string
  tenantId: string
  name: string
  desired: Desired
  generation: number
  gpu: number
  state: EndpointState
  error: Failure | null
  deploymentId: string
  validationDatasetId: string | null
  checkedAt: Date | null
  createdBy: string
  createdAt: Date
  updatedAt: Date
}

/** Names one endpoint, also for work that sees every tenant. */
export type EndpointRef = Pick<EndpointRow, 'id' | 'tenantId'>

export type NewEndpoint = Served &
  Pick<EndpointRow, 'id' | 'tenantId' | 'name' | 'gpu' | 'deploymentId' | 'validationDatasetId' | 'createdBy'>

/** False when the name is taken. */
export async function insertEndpoint(tx: Tx, endpoint: NewEndpoint): Promise<boolean> {
  const inserted = await tx
    .insertInto('servingEndpoints')
    .values(endpoint)
    .onConflict((oc) => oc.constraint('serving_endpoints_name').doNothing())
    .executeTakeFirst()
  return Number(inserted.numInsertedOrUpdatedRows) > 0
}

export async function findEndpoint(tx: Tx, tenantId: string, name: string): Promise<EndpointRow | undefined> {
  return (await endpointsOf(tx, tenantId).where('name', '=', name).executeTakeFirst()) as EndpointRow | undefined
}

export async function findEndpointById(tx: Tx, { tenantId, id }: EndpointRef): Promise<EndpointRow | undefined> {
  return (await endpointsOf(tx, tenantId).where('id', '=', id).executeTakeFirst()) as EndpointRow | undefined
}

/** The same, and nobody else changes it (or plans its replicas) until this transaction ends. */
export async function lockEndpoint(tx: Tx, { tenantId, id }: EndpointRef): Promise<EndpointRow | undefined> {
  const query = endpointsOf(tx, tenantId).where('id', '=', id).forUpdate()
  return (await query.executeTakeFirst()) as EndpointRow | undefined
}

export async function lockEndpointByName(tx: Tx, tenantId: string, name: string): Promise<EndpointRow | undefined> {
  const query = endpointsOf(tx, tenantId).where('name', '=', name).forUpdate()
  return (await query.executeTakeFirst()) as EndpointRow | undefined
}

/** Newest first. */
export async function listEndpoints(tx: Tx, tenantId: string): Promise<EndpointRow[]> {
  return (await endpointsOf(tx, tenantId).orderBy('createdAt', 'desc').orderBy('id').execute()) as EndpointRow[]
}

const endpointsOf = (tx: Tx, tenantId: string) =>
  tx.selectFrom('servingEndpoints').selectAll().where('tenantId', '=', tenantId)

/** Every endpoint, of all tenants, that somebody has to look after. */
export async function listSupervised(tx: Tx): Promise<EndpointRef[]> {
  return tx
    .selectFrom('servingEndpoints as e')
    .select(['e.id', 'e.tenantId'])
    .where((eb) =>
      eb.or([
        eb('e.desired', '=', 'RUNNING'),
        eb.exists(eb.selectFrom('servingReplicas as r').select('r.id').whereRef('r.endpointId', '=', 'e.id')),
      ]),
    )
    .execute()
}

/** Digests of the images that endpoints serve or are about to. */
export async function listServedDigests(tx: Tx): Promise<Set<string>> {
  const rows = await sql<{ imageDigest: string }>`
    select image_digest as "imageDigest" from serving_endpoints
    union select image_digest from serving_replicas`.execute(tx)
  return new Set(rows.rows.map((row) => row.imageDigest))
}

export type EndpointChange = Partial<Served> &
  Partial<Pick<EndpointRow, 'desired' | 'generation' | 'state' | 'error' | 'deploymentId' | 'checkedAt'>>

export async function updateEndpoint(
  tx: Tx,
  { tenantId, id }: EndpointRef,
  { error, ...change }: EndpointChange,
): Promise<void> {
  await tx
    .updateTable('servingEndpoints')
    .set({
      ...change,
      ...(error === undefined ? {} : { error: error && JSON.stringify(error) }),
      ...(change.generation === undefined ? {} : { updatedAt: sql`now()` }),
    })
    .where('tenantId', '=', tenantId)
    .where('id', '=', id)
    .execute()
}

export async function deleteEndpoint(tx: Tx, { tenantId, id }: EndpointRef): Promise<void> {
  await tx.deleteFrom('servingEndpoints').where('tenantId', '=', tenantId).where('id', '=', id).execute()
}

/** Nothing of a tenant's endpoints is wanted any more. */
export async function abandonEndpoints(tx: Tx, tenantId: string): Promise<void> {
  await tx
    .updateTable('servingEndpoints')
    .set((eb) => ({ desired: 'DELETED', state: 'DELETING', generation: eb('generation', '+', 1) }))
    .where('tenantId', '=', tenantId)
    .execute()
  await tx
    .updateTable('servingReplicas')
    .set({ state: 'DRAINING', address: null })
    .where('tenantId', '=', tenantId)
    .execute()
}

export async function countEndpoints(tx: Tx, tenantId: string): Promise<Record<string, number>> {
  const { count } = await tx
    .selectFrom('servingEndpoints')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('tenantId', '=', tenantId)
    .executeTakeFirstOrThrow()
  return { endpoints: Number(count) }
}
