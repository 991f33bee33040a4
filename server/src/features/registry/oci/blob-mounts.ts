import { transaction } from '../../../platform/db/transaction.ts'
import { type BlobLink, findBlobByName, findBlobInTenant } from '../blobs.store.ts'
import { findRepository, isSharedWith } from '../repositories.store.ts'
import { sharedNamespace } from '../repository-names.ts'
import type { OciCall } from './oci-call.ts'

/**
 * The blob as it lies in a repository that the caller may pull from, or null: then an upload begins, so that nobody
 * learns what is elsewhere. @source contract B9.10
 */
export async function findMountable(call: OciCall, mount: Mount): Promise<BlobLink | null> {
  const link = await findLink(call, mount)
  if (!link) return null
  // The other repository may let go of it at any moment; marked as used it stays until it is linked here.
  return (await call.ctx.blobs.use(link.contentDigest)) ? link : null
}

interface Mount {
  digest: string
  from: string | null
}

async function findLink({ ctx }: OciCall, { digest, from }: Mount): Promise<BlobLink | null> {
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
