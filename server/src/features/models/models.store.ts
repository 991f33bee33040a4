import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'

export interface ModelRow {
  id: string
  /** As it was first written; looked up in any case. */
  name: string
  description: string
  tags: Record<string, string>
  lastVersion: number
  createdAt: Date
  updatedAt: Date
}

const columns = ['id', 'name', 'description', 'tags', 'lastVersion', 'createdAt', 'updatedAt'] as const

/** @source contract B12.5 (names in any case) */
export async function findModel(tx: Tx, tenantId: string, name: string): Promise<ModelRow | null> {
  const row = await tx
    .selectFrom('models')
    .select(columns)
    .where('tenantId', '=', tenantId)
    .where(sql`lower(name)`, '=', name.toLowerCase())
    .executeTakeFirst()
  return (row as ModelRow | undefined) ?? null
}

export interface NewModel {
  name: string
  description?: string
  tags?: Record<string, string>
}

/** Null when there is a model of that name in any case. */
export async function insertModel(tx: Tx, tenantId: string, model: NewModel): Promise<ModelRow | null> {
  const row = await tx
    .insertInto('models')
    .values({ id: newId(), tenantId, ...model, tags: JSON.stringify(model.tags ?? {}) })
    .onConflict((oc) => oc.expression(sql`tenant_id, lower(name)`).doNothing())
    .returning(columns)
    .executeTakeFirst()
  return (row as ModelRow | undefined) ?? null
}

/** The next version number; holds the model's row, so that no two registrations get the same. */
export async function takeVersionNumber(tx: Tx, tenantId: string, modelId: string): Promise<number> {
  const row = await tx
    .updateTable('models')
    .set({ lastVersion: sql`last_version + 1`, updatedAt: sql`now()` })
    .where('tenantId', '=', tenantId)
    .where('id', '=', modelId)
    .returning('lastVersion')
    .executeTakeFirstOrThrow()
  return row.lastVersion
}

/** Holds the model until the transaction ends: stages and promotions of its versions change one after the other. */
export async function lockModel(tx: Tx, tenantId: string, name: string): Promise<ModelRow | null> {
  const row = await tx
    .selectFrom('models')
    .select(columns)
    .where('tenantId', '=', tenantId)
    .where(sql`lower(name)`, '=', name.toLowerCase())
    .forUpdate()
    .executeTakeFirst()
  return (row as ModelRow | undefined) ?? null
}

export interface ModelChange {
  name?: string
  description?: string
}

/** Throws PostgreSQL's 23505 when the name is taken. */
export async function updateModel(tx: Tx, tenantId: string, modelId: string, change: ModelChange): Promise<void> {
  await tx
    .updateTable('models')
    .set({ ...change, updatedAt: sql`now()` })
    .where('tenantId', '=', tenantId)
    .where('id', '=', modelId)
    .execute()
}

/** A value of null removes the tag. */
export async function changeModelTag(
  tx: Tx,
  tenantId: string,
  modelId: string,
  key: string,
  value: string | null,
): Promise<void> {
  await sql`
    update models set updated_at = now(),
      tags = ${value === null ? sql`tags - ${key}::text` : sql`tags || jsonb_build_object(${key}::text, ${value}::text)`}
    where tenant_id = ${tenantId} and id = ${modelId}`.execute(tx)
}

/** With all versions. Throws PostgreSQL's 23503 when something that may not lose them holds one. */
export async function deleteModel(tx: Tx, tenantId: string, modelId: string): Promise<void> {
  await tx.deleteFrom('models').where('tenantId', '=', tenantId).where('id', '=', modelId).execute()
}
