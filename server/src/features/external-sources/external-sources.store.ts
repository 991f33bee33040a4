import { type Selectable, type SqlBool, sql } from 'kysely'
import type { SourceKind } from '../../adapters/external-sources/external-sources.ts'
import type { DB } from '../../platform/db/database.generated.ts'
import { pageAndTotal } from '../../platform/db/pages.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { likePattern, type PageQuery } from '../../platform/http/lists.ts'

export interface SourceRow extends Omit<Selectable<DB['externalSources']>, 'kind' | 'config'> {
  kind: SourceKind
  config: Record<string, unknown>
}

export interface NewSource {
  id: string
  name: string
  kind: SourceKind
  config: Record<string, unknown>
  credentials: string | null
  createdBy: string
}

const select = (tx: Tx, tenantId: string) =>
  tx.selectFrom('externalSources').selectAll().where('tenantId', '=', tenantId).$castTo<SourceRow>()

export const findSource = (tx: Tx, tenantId: string, id: string): Promise<SourceRow | undefined> =>
  select(tx, tenantId).where('id', '=', id).executeTakeFirst()

export const lockSource = (tx: Tx, tenantId: string, id: string): Promise<SourceRow | undefined> =>
  select(tx, tenantId).where('id', '=', id).forUpdate().executeTakeFirst()

/** Whether another source has the name, in any case of letters. */
export async function isNameTaken(tx: Tx, tenantId: string, name: string, exceptId: string): Promise<boolean> {
  const row = await tx
    .selectFrom('externalSources')
    .select('id')
    .where('tenantId', '=', tenantId)
    .where(sql<SqlBool>`lower(name) = lower(${name})`)
    .where('id', '!=', exceptId)
    .executeTakeFirst()
  return row !== undefined
}

/** False when the name is taken. */
export async function insertSource(tx: Tx, tenantId: string, source: NewSource): Promise<boolean> {
  const result = await tx
    .insertInto('externalSources')
    .values({ tenantId, ...source, config: JSON.stringify(source.config) })
    .onConflict((oc) => oc.doNothing())
    .executeTakeFirst()
  return Number(result.numInsertedOrUpdatedRows) === 1
}

export interface SourceChange {
  name?: string
  config?: Record<string, unknown>
  credentials?: string | null
}

export async function updateSource(
  tx: Tx,
  tenantId: string,
  id: string,
  { config, ...change }: SourceChange,
): Promise<void> {
  await tx
    .updateTable('externalSources')
    .set({ ...change, ...(config ? { config: JSON.stringify(config) } : {}), updatedAt: sql`now()` })
    .where('tenantId', '=', tenantId)
    .where('id', '=', id)
    .execute()
}

export async function deleteSource(tx: Tx, tenantId: string, id: string): Promise<void> {
  await tx.deleteFrom('externalSources').where('tenantId', '=', tenantId).where('id', '=', id).execute()
}

export async function listSources(
  tx: Tx,
  tenantId: string,
  query: PageQuery & { q?: string },
): Promise<{ items: SourceRow[]; total: number }> {
  const q = query.q?.trim()
  const pattern = likePattern(q ?? '')
  let filtered = tx.selectFrom('externalSources').where('tenantId', '=', tenantId)
  if (q) filtered = filtered.where(sql<SqlBool>`(name ilike ${pattern} or id::text ilike ${pattern})`)
  const items = filtered
    .selectAll()
    .orderBy('name')
    .orderBy('id')
    .limit(query.page_size)
    .offset((query.page - 1) * query.page_size)
    .$castTo<SourceRow>()
  return pageAndTotal(filtered, items)
}

/** For the preview of a tenant's deletion. */
export async function countSources(tx: Tx, tenantId: string): Promise<number> {
  const { total } = await tx
    .selectFrom('externalSources')
    .select(({ fn }) => fn.countAll<number>().as('total'))
    .where('tenantId', '=', tenantId)
    .executeTakeFirstOrThrow()
  return total
}
