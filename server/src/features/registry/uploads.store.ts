import { sql } from 'kysely'
import type { Database } from '../../platform/db/database.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'
import type { BlobLink } from './blobs.store.ts'

/** Pushes take these steps all the time, so each is one statement that sets its own scope. */
type Db = Pick<Database, 'kysely'>

/**
 * Begins an upload; the repository is made when it is not there yet. Returns the upload's id, or null when the tenant has
 * `most` of them under way.
 */
export async function startUpload(db: Db, tenantId: string, name: string, most: number): Promise<string | null> {
  const id = newId()
  const result = await sql<{ started: boolean }>`
    select registry_start_upload(${tenantId}, ${name}, ${id}, ${newId()}, ${most}) as started`.execute(db.kysely)
  return result.rows[0]!.started ? id : null
}

export interface OpenUpload {
  id: string
  name: string
  receivedBytes: number
  repositoryId: string
  /** What the quota leaves; null without a quota. */
  leftBytes: number | null
}

/** An upload of the repository of that name that has not ended. */
export async function openUpload(
  db: Db,
  tenantId: string,
  upload: { name: string; id: string },
): Promise<OpenUpload | undefined> {
  const result = await sql<Omit<OpenUpload, 'name'>>`
    select * from registry_open_upload(${tenantId}, ${upload.name}, ${upload.id})`.execute(db.kysely)
  const row = result.rows[0]
  return row && { ...row, name: upload.name }
}

/**
 * Takes room for the upload to grow to `wanted` bytes within the quota, until the upload advances or ends; returns the
 * length that it may have, or null when it has ended. Pushes of the tenant take turns here, for as long as one look at
 * its usage takes.
 */
export async function reserveUpload(db: Db, tenantId: string, id: string, wanted: number): Promise<number | null> {
  const result = await sql<{ granted: number | null }>`
    select registry_reserve_upload(${tenantId}, ${id}, ${wanted}) as granted`.execute(db.kysely)
  return result.rows[0]!.granted
}

/** Records what arrived and ends the reservation; false when the upload ended or moved on meanwhile. */
export async function advanceUpload(db: Db, tenantId: string, id: string, from: number, to: number): Promise<boolean> {
  const result = await sql<{ moved: boolean }>`
    select registry_advance_upload(${tenantId}, ${id}, ${from}, ${to}) as moved`.execute(db.kysely)
  return result.rows[0]!.moved
}

/** Links the blob that the upload brought, and forgets the upload; false when it had ended already. */
export async function endUpload(db: Db, tenantId: string, upload: OpenUpload, link: BlobLink): Promise<boolean> {
  const { digest, contentDigest, size } = link
  const result = await sql<{ ended: boolean }>`
    select registry_end_upload(${tenantId}, ${upload.id}, ${upload.repositoryId}, ${digest}, ${contentDigest}, ${size})
      as ended`.execute(db.kysely)
  return result.rows[0]!.ended
}

export async function deleteUpload(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('registryUploads').where('id', '=', id).execute()
}
