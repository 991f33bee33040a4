import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'

export interface NewImport {
  tenantId: string
  repository: string | null
  tag: string | null
  filename: string | null
  sizeBytes: number
  chunkSize: number
  createdBy: string
}

export async function insertImport(tx: Tx, values: NewImport): Promise<ImportRow> {
  return tx
    .insertInto('registryImports')
    .values({ id: newId(), ...values })
    .returningAll()
    .executeTakeFirstOrThrow()
}

export async function findImport(tx: Tx, tenantId: string, id: string) {
  return tx
    .selectFrom('registryImports')
    .selectAll()
    .where('tenantId', '=', tenantId)
    .where('id', '=', id)
    .executeTakeFirst()
}

export type ImportRow = NonNullable<Awaited<ReturnType<typeof findImport>>>

/** The same, kept from changing until the transaction ends. */
export async function lockImport(tx: Tx, tenantId: string, id: string): Promise<ImportRow | undefined> {
  return tx
    .selectFrom('registryImports')
    .selectAll()
    .where('tenantId', '=', tenantId)
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
}

/** The newest first; of those that have ended only what ended after `since`. */
export async function listImports(tx: Tx, tenantId: string, since: Date | null): Promise<ImportRow[]> {
  let query = tx.selectFrom('registryImports').selectAll().where('tenantId', '=', tenantId)
  if (since) query = query.where((eb) => eb.or([eb('endedAt', 'is', null), eb('endedAt', '>=', since)]))
  return query.orderBy('createdAt', 'desc').orderBy('id').execute()
}

/** Records what arrived; false when the session ended or moved on meanwhile. */
export async function advanceImport(tx: Tx, id: string, from: number, to: number): Promise<boolean> {
  const result = await tx
    .updateTable('registryImports')
    .set({ receivedBytes: to, touchedAt: sql`now()` })
    .where('id', '=', id)
    .where('status', '=', 'UPLOADING')
    .where('receivedBytes', '=', from)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export interface ImportError {
  /** `bad_tar`, `no_manifest`, `digest_mismatch`, … or `platform`. */
  code: string
  message: string
}

export interface ImportChange {
  status?: 'RUNNING' | 'READY' | 'FAILED' | 'CANCELED'
  phase?: 'assemble' | 'inspect' | 'done'
  progress?: number
  images?: string[]
  error?: ImportError
  runId?: string
}

/** Changes an import that has not ended; an end is final. */
export async function updateLiveImport(tx: Tx, id: string, change: ImportChange): Promise<ImportRow | undefined> {
  const { images, error, ...plain } = change
  const ended = change.status !== undefined && change.status !== 'RUNNING'
  return tx
    .updateTable('registryImports')
    .set({
      ...plain,
      ...(images ? { images: JSON.stringify(images) } : {}),
      ...(error ? { error: JSON.stringify(error) } : {}),
      ...(ended ? { endedAt: sql`now()` } : {}),
      touchedAt: sql`now()`,
    })
    .where('id', '=', id)
    .where('status', 'in', ['UPLOADING', 'RUNNING'])
    .returningAll()
    .executeTakeFirst()
}

export async function deleteImport(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('registryImports').where('id', '=', id).execute()
}

/** Removes records of imports that ended before, at most so many; says how many. */
export async function deleteEndedImports(tx: Tx, tenantId: string, before: Date, limit: number): Promise<number> {
  const old = tx
    .selectFrom('registryImports')
    .select('id')
    .where('tenantId', '=', tenantId)
    .where('endedAt', '<', before)
    .limit(limit)
  const result = await tx.deleteFrom('registryImports').where('id', 'in', old).executeTakeFirst()
  return Number(result.numDeletedRows)
}

/** Sessions that nobody touched since `before` and that never started. */
export async function listIdleImports(tx: Tx, before: Date): Promise<{ id: string; tenantId: string }[]> {
  return tx
    .selectFrom('registryImports')
    .select(['id', 'tenantId'])
    .where('status', '=', 'UPLOADING')
    .where('touchedAt', '<', before)
    .execute()
}

/** Of these ids, those whose import has not ended. */
export async function liveImportsAmong(tx: Tx, ids: string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set()
  const rows = await tx
    .selectFrom('registryImports')
    .select('id')
    .where('id', 'in', ids)
    .where('status', 'in', ['UPLOADING', 'RUNNING'])
    .execute()
  return new Set(rows.map((row) => row.id))
}
