import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'
import type { RepositoryRow } from './repositories.store.ts'

/** A session that loses its last moments in a power cut costs its client a new start, so nobody waits for the disk. */
const withoutSync = (tx: Tx) => sql`set local synchronous_commit = off`.execute(tx)

export async function insertUpload(tx: Tx, repository: RepositoryRow): Promise<string> {
  await withoutSync(tx)
  const id = newId()
  await tx
    .insertInto('registryUploads')
    .values({ id, repositoryId: repository.id, tenantId: repository.tenantId })
    .execute()
  return id
}

/** An open upload of the repository of that name. */
export async function findUpload(tx: Tx, name: string, id: string) {
  return tx
    .selectFrom('registryUploads as u')
    .innerJoin('registryRepositories as r', 'r.id', 'u.repositoryId')
    .select(['u.id', 'u.receivedBytes', 'u.repositoryId'])
    .select(['r.tenantId', 'r.name', 'r.pushedAt'])
    .where('u.id', '=', id)
    .where('r.name', '=', name)
    .executeTakeFirst()
}

export type UploadRow = NonNullable<Awaited<ReturnType<typeof findUpload>>>

/** Records what arrived; false when the upload ended or moved on meanwhile. */
export async function advanceUpload(tx: Tx, id: string, from: number, to: number): Promise<boolean> {
  await withoutSync(tx)
  const result = await tx
    .updateTable('registryUploads')
    .set({ receivedBytes: to, touchedAt: sql`now()` })
    .where('id', '=', id)
    .where('receivedBytes', '=', from)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** False when it had ended already. */
export async function deleteUpload(tx: Tx, id: string): Promise<boolean> {
  const result = await tx.deleteFrom('registryUploads').where('id', '=', id).executeTakeFirst()
  return result.numDeletedRows > 0n
}
