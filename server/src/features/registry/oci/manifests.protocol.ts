import { audited } from '../../../platform/audit.ts'
import { inBatches } from '../../../platform/blobs/content-batches.ts'
import { Answer } from '../../../platform/http/answer.ts'
import { bodyStream } from '../../../platform/http/bodies.ts'
import { matchesEtag } from '../../../platform/http/content.ts'
import { transaction } from '../../../platform/transaction.ts'
import { recordManifest, requireUnheld } from '../manifests.service.ts'
import { deleteManifest, findManifestByName, pullManifest } from '../manifests.store.ts'
import { lockRepository, repositoryForPush } from '../repositories.store.ts'
import { deleteTag, lockTag } from '../tags.store.ts'
import type { OciCall } from './oci-call.ts'
import { ociError } from './oci-errors.ts'
import { manifestMaxBytes, parseManifest, requireManifestDigest } from './oci-manifests.ts'
import { isTag, type OciRoute, type Reference } from './oci-paths.ts'

type ManifestRoute = Extract<OciRoute, { kind: 'manifest' }>

const tagsMax = 10

export function answerManifest(call: OciCall, route: ManifestRoute): Promise<Answer> {
  if (route.method === 'PUT') return putManifest(call, route)
  return route.method === 'DELETE' ? removeManifest(call, route) : getManifest(call, route)
}

/** The stored bytes under the stored type, whatever `Accept` says. @source contract B9.6 */
async function getManifest(call: OciCall, { method, name, reference }: ManifestRoute): Promise<Answer> {
  const { ctx, shared } = call
  const manifest = shared
    ? await call.look((tx) => findManifestByName(tx, name, reference))
    : await pullManifest(ctx.db, ctx.tenant.id, name, reference)
  if (!manifest) throw ociError('MANIFEST_UNKNOWN', { detail: { name, ...reference } })
  const etag = `"${manifest.digest}"`
  const headers = {
    'content-type': manifest.mediaType,
    'content-length': String(manifest.size),
    'docker-content-digest': manifest.digest,
    etag,
  }
  if (matchesEtag(call.request.headers['if-none-match'], etag)) return new Answer({ status: 304, headers: { etag } })
  if (method === 'HEAD') return new Answer({ headers })
  call.registry.counters.pulled(manifest.repositoryId)
  return new Answer({ headers, body: await call.registry.manifestBytes(manifest.contentDigest) })
}

/** @source contract B9.7 */
async function putManifest(call: OciCall, { name, reference }: ManifestRoute): Promise<Answer> {
  const { ctx, request } = call
  const tags = tagsOf(call.query, reference)
  const bytes = await readBody(call)
  const parsed = parseManifest(bytes, request.headers['content-type'])
  requireManifestDigest(bytes, reference)
  const contentDigest = parsed.digest
  const manifest = 'digest' in reference ? { ...parsed, digest: reference.digest } : parsed
  const stored = ctx.blobs.put(oneChunk(bytes), { expected: contentDigest })
  // Whoever is first tells of a failure; the other's would count as unhandled.
  stored.catch(() => {})
  audited(ctx, name, { digest: manifest.digest, tags })
  await transaction(ctx, async (tx) => {
    const repository = await repositoryForPush(tx, ctx.tenant.id, name)
    await recordManifest(tx, repository, { manifest, contentDigest, tags })
    await stored
  })
  return new Answer({
    status: 201,
    headers: {
      location: `/v2/${name}/manifests/${manifest.digest}`,
      'docker-content-digest': manifest.digest,
      'content-length': '0',
      ...(manifest.subject ? { 'oci-subject': manifest.subject.digest } : {}),
      ...(call.query.has('tag') ? { 'oci-tag': tags.join(', ') } : {}),
    },
  })
}

/** Tags to set: the one in the address, and with a digest there those of `?tag=`. */
function tagsOf(query: URLSearchParams, reference: Reference): string[] {
  const named = [...new Set(query.getAll('tag'))]
  const wrong = named.find((tag) => !isTag(tag))
  if (wrong !== undefined)
    throw ociError('MANIFEST_INVALID', { message: 'A tag is not valid.', detail: { tag: wrong } })
  if (named.length > tagsMax) {
    throw ociError('MANIFEST_INVALID', { message: `At most ${tagsMax} tags at once.`, detail: { max_tags: tagsMax } })
  }
  return 'tag' in reference ? [...new Set([reference.tag, ...named])] : named
}

/** Throws SIZE_INVALID (413) as soon as it is too long. */
async function readBody({ request }: OciCall): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for await (const batch of inBatches(bodyStream(request), { maxBytes: manifestMaxBytes })) parts.push(...batch)
  return Buffer.concat(parts)
}

async function* oneChunk(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}

/** By tag only the tag goes; by digest the manifest goes with all its tags. @source contract B9.12 */
async function removeManifest(call: OciCall, { name, reference }: ManifestRoute): Promise<Answer> {
  const { ctx } = call
  audited(ctx, name, reference)
  await transaction(ctx, async (tx) => {
    const repository = await lockRepository(tx, name)
    if (!repository) throw ociError('NAME_UNKNOWN', { detail: { name } })
    const digest = 'tag' in reference ? await lockTag(tx, repository.id, reference.tag) : reference.digest
    const unknown = ociError('MANIFEST_UNKNOWN', { detail: { name, ...reference } })
    if (!digest) throw unknown
    await requireUnheld(tx, repository, digest)
    if ('tag' in reference) await deleteTag(tx, repository.id, reference.tag)
    else if (!(await deleteManifest(tx, repository.id, digest))) throw unknown
  })
  return new Answer({ status: 202, headers: { 'content-length': '0' } })
}
