import { audited } from '../../platform/audit.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { notFound } from '../../platform/errors.ts'
import { type ListQuery, ordering, type PageQuery } from '../../platform/http/lists.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { type Hold, listHoldsOfRepository, listHoldsOn } from './holds.store.ts'
import { readJsonBlob } from './manifest-reader.ts'
import { requireUnheld, throwIfHeld } from './manifests.service.ts'
import { findManifestDetails, listReferences, type ManifestDetails, type ReferenceRow } from './manifests.store.ts'
import { isTag } from './oci/oci-paths.ts'
import {
  findRepository,
  getRepositoryItem,
  listRepositories,
  lockRepository,
  type RepositoryRow,
  deleteRepository as removeRepository,
  repositorySorts,
} from './repositories.store.ts'
import { wholeName } from './repository-names.ts'
import { listTags, lockTag, deleteTag as removeTag, tagsOfManifest } from './tags.store.ts'

export const pageOfRepositories = (ctx: TenantCtx, query: ListQuery) =>
  read(ctx, (tx) =>
    listRepositories(tx, ctx.tenant.id, {
      q: query.q,
      ...ordering(repositorySorts, query),
      limit: query.page_size,
      offset: (query.page - 1) * query.page_size,
    }),
  )

/** Throws `not_found`, also for a place where uploads began and nothing was pushed yet. */
async function repositoryOf(tx: Tx, ctx: TenantCtx, name: string): Promise<RepositoryRow> {
  const repository = await findRepository(tx, wholeName(ctx, name))
  if (!repository?.pushedAt) throw notFound('There is no such repository.')
  return repository
}

export function pageOfTags(ctx: TenantCtx, name: string, query: PageQuery) {
  return read(ctx, async (tx) => {
    const repository = await repositoryOf(tx, ctx, name)
    const page = { limit: query.page_size, offset: (query.page - 1) * query.page_size }
    return { repository, ...(await listTags(tx, repository.id, page)) }
  })
}

export interface ManifestView {
  repository: RepositoryRow
  manifest: ManifestDetails
  tags: string[]
  references: ReferenceRow[]
  holds: Hold[]
  imageConfig: Record<string, unknown> | null
}

const configTypes = new Set([
  'application/vnd.oci.image.config.v1+json',
  'application/vnd.docker.container.image.v1+json',
])

/** A manifest by tag or digest, with what it is made of. Throws `not_found`. */
export async function getManifest(ctx: TenantCtx, name: string, reference: string): Promise<ManifestView> {
  const view = await read(ctx, async (tx) => {
    const repository = await repositoryOf(tx, ctx, name)
    const manifest = await findManifestDetails(tx, repository.id, reference)
    if (!manifest) throw notFound('The repository has no such tag or manifest.')
    return {
      repository,
      manifest,
      tags: await tagsOfManifest(tx, repository.id, manifest.digest),
      references: await listReferences(tx, repository.id, manifest.digest),
      holds: await listHoldsOn(tx, repository, manifest.digest),
    }
  })
  const config = view.references.find(({ role, mediaType }) => role === 'config' && configTypes.has(mediaType))
  const content = config?.contentDigest ? await readJsonBlob(ctx.blobs, config.contentDigest).catch(() => null) : null
  return { ...view, imageConfig: content as Record<string, unknown> | null }
}

/** The manifest stays, under its digest and other tags. Throws `not_found`, and `conflict` while it is in use. @source contract PR-62 */
export function deleteTag(ctx: TenantCtx, name: string, tag: string) {
  return transaction(ctx, async (tx) => {
    const repository = await lockRepository(tx, wholeName(ctx, name))
    const digest = repository && isTag(tag) ? await lockTag(tx, repository.id, tag) : null
    if (!repository || !digest) throw notFound('The repository has no such tag.')
    audited(ctx, `${repository.name}:${tag}`, { digest })
    await requireUnheld(tx, repository, digest)
    await removeTag(tx, repository.id, tag)
    return { repository: repository.name, tag, digest }
  })
}

/** With all tags and manifests. Throws `not_found`, and `conflict` while an image in it is in use. @source contract PR-63 */
export function deleteRepository(ctx: TenantCtx, name: string) {
  return transaction(ctx, async (tx) => {
    const repository = await lockRepository(tx, wholeName(ctx, name))
    if (!repository?.pushedAt) throw notFound('There is no such repository.')
    throwIfHeld(await listHoldsOfRepository(tx, repository.name))
    const item = await getRepositoryItem(tx, repository.id)
    audited(ctx, repository.name, { tags: item.tagCount, manifests: item.manifestCount })
    await removeRepository(tx, repository.id)
    return item
  })
}
