import { link, rm } from 'node:fs/promises'
import { digestOfFile } from '../../platform/blobs/digest.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { RunCanceled } from '../../platform/runs/define-run.ts'
import { transaction } from '../../platform/transaction.ts'
import type { BlobLink } from './blobs.store.ts'
import { type ArchivedBlob, type ArchivedImage, type ArchivedManifest, importFault } from './image-archive.ts'
import { type ImportRow, lockImport, updateLiveImport } from './imports.store.ts'
import { recordImage } from './manifests.service.ts'
import { digestAlgorithm, digestOfBytes, digestOfFileBy } from './oci/oci-digest.ts'
import { isRepositoryName, isTag } from './oci/oci-paths.ts'
import { lockQuota } from './quota.store.ts'
import { quotaLeft } from './quota.ts'
import { repositoryForPush } from './repositories.store.ts'
import { registryHost, wholeName } from './repository-names.ts'

interface Reporter {
  signal: AbortSignal
  progress(fraction: number, message?: string): void
  log(line: string): void
}

interface StoredManifest extends ArchivedManifest {
  links: BlobLink[]
}

interface Target {
  repository: string
  tag: string
}

/**
 * Puts the images of an archive into the registry as a push would, all of them or none. Done again it changes nothing.
 * Throws an import fault.
 */
export async function storeImages(
  ctx: TenantCtx,
  importId: string,
  images: ArchivedImage[],
  reporter: Reporter,
): Promise<void> {
  const stored = await storeContents(ctx, images, reporter)
  await transaction(ctx, async (tx) => {
    const row = await lockImport(tx, ctx.tenant.id, importId)
    if (row?.status === 'READY') return
    if (row?.status !== 'RUNNING') throw new RunCanceled('the import was canceled')
    const references: string[] = []
    for (const [index, image] of images.entries()) {
      const targets = targetsOf(ctx, image, row, images.length)
      for (const target of targets) references.push(await recordTarget(tx, ctx, stored[index]!, target))
    }
    await lockQuota(tx, ctx.tenant.id)
    if ((await quotaLeft(tx, ctx.tenant.id)) < 0) {
      throw importFault('quota', 'The images are larger than what the tenant’s registry quota leaves.')
    }
    await updateLiveImport(tx, importId, { status: 'READY', phase: 'done', progress: 1, images: references })
    reporter.log(`stored as ${references.join(', ')}`)
  })
}

/** Bytes first, each checked against the digest it goes by; the files stay where they are, so that this can be repeated. */
async function storeContents(
  ctx: TenantCtx,
  images: ArchivedImage[],
  { signal, progress }: Reporter,
): Promise<StoredManifest[][]> {
  const known = new Map<string, BlobLink>()
  const count = images.flatMap(({ manifests }) => manifests.flatMap(({ blobs }) => blobs)).length
  let done = 0
  const store = async (blob: ArchivedBlob) => {
    signal.throwIfAborted()
    progress(done++ / count, 'checking and storing')
    const stored = known.get(blob.digest) ?? (await storeFile(ctx, blob))
    known.set(blob.digest, stored)
    return stored
  }
  const result: StoredManifest[][] = []
  for (const { manifests } of images) {
    const stored: StoredManifest[] = []
    for (const archived of manifests) {
      const links: BlobLink[] = []
      for (const blob of archived.blobs) links.push(await store(blob))
      await storeManifest(ctx, archived)
      stored.push({ ...archived, links })
    }
    result.push(stored)
  }
  return result
}

async function storeFile(ctx: TenantCtx, { digest, path }: ArchivedBlob): Promise<BlobLink> {
  const contentDigest = await digestOfFile(path)
  const algorithm = digestAlgorithm(digest)!
  const actual = algorithm === 'sha256' ? contentDigest : await digestOfFileBy(path, algorithm)
  if (actual !== digest) throw importFault('digest_mismatch', `The archive calls ${actual} by the name of ${digest}.`)
  const copy = `${path}.adopted`
  await rm(copy, { force: true })
  await link(path, copy)
  const { size } = await ctx.blobs.adopt(copy, { digest: contentDigest })
  return { digest, contentDigest, size }
}

async function storeManifest(ctx: TenantCtx, { bytes, manifest }: ArchivedManifest): Promise<void> {
  const actual = digestOfBytes(bytes, digestAlgorithm(manifest.digest)!)
  if (actual !== manifest.digest) {
    throw importFault('digest_mismatch', `The archive calls the manifest ${actual} by the name of ${manifest.digest}.`)
  }
  const contentDigest = digestOfBytes(bytes)
  await ctx.blobs.put(oneChunk(bytes), { expected: contentDigest })
}

async function* oneChunk(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}

/** Where an image goes: as asked for, else as the archive calls it. */
function targetsOf(ctx: TenantCtx, image: ArchivedImage, asked: ImportRow, imageCount: number): Target[] {
  if (asked.repository && imageCount > 1) {
    throw importFault('several_images', `The archive holds ${imageCount} images; import it without a repository name.`)
  }
  const names = image.names.length > 0 ? image.names : [{ repository: null, tag: null }]
  const targets = names.map(({ repository, tag }) => {
    const name = asked.repository ?? repository
    if (!name) throw importFault('no_name', 'The archive does not name its image; give a repository name.')
    return { repository: name, tag: asked.tag ?? tag ?? 'latest' }
  })
  const wrong = targets.find(
    ({ repository, tag }) => !isRepositoryName(`${ctx.tenant.code}/${repository}`) || !isTag(tag),
  )
  if (wrong) throw importFault('bad_name', `${wrong.repository}:${wrong.tag} is no name; give a repository and a tag.`)
  return [...new Map(targets.map((target) => [`${target.repository}:${target.tag}`, target])).values()]
}

async function recordTarget(
  tx: Tx,
  ctx: TenantCtx,
  manifests: StoredManifest[],
  { repository: name, tag }: Target,
): Promise<string> {
  const repository = await repositoryForPush(tx, ctx.tenant.id, wholeName(ctx, name))
  for (const { manifest, bytes, links } of manifests) {
    const isLast = manifest === manifests.at(-1)!.manifest
    const contentDigest = digestOfBytes(bytes)
    await recordImage(tx, repository, { manifest, contentDigest, tags: isLast ? [tag] : [], blobs: links })
  }
  return `${registryHost(ctx)}/${repository.name}:${tag}@${manifests.at(-1)!.manifest.digest}`
}
