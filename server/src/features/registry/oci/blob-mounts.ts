import { transaction } from '../../../platform/db/transaction.ts'
import { type BlobLink, findBlobByName, findBlobInTenant } from '../blobs.store.ts'
import { findRepository, isSharedWith } from '../repositories.store.ts'
import { sharedNamespace } from '../repository-names.ts'
import type { OciCall } from './oci-call.ts'

/**
 * The blob as it lies in a repository that the caller may pull from, or null: then an upload begins, so that nobody
 * learns what is elsewhere. @source contract B9.10
 */
export async function findMountable(
  { ctx }: OciCall,
  { digest, from }: { digest: string; from: string | null },
): Promise<BlobLink | null> {
  if (from === null) {
    return (await transaction(ctx.db, ctx.scope, (tx) => findBlobInTenant(tx, ctx.tenant.id, digest))) ?? null
  }
  if (from.startsWith(`${ctx.tenant.code}/`)) {
    return (await transaction(ctx.db, ctx.scope, (tx) => findBlobByName(tx, from, digest))) ?? null
  }
  if (!from.startsWith(`${sharedNamespace}/`)) return null
  return transaction(ctx.db, 'system', async (tx) => {
    const repository = await findRepository(tx, from)
    if (!repository || !(await isSharedWith(tx, repository.id, ctx.tenant.id))) return null
    return (await findBlobByName(tx, from, digest)) ?? null
  })
}
