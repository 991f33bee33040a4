import { Answer } from '../../../platform/http/answer.ts'
import { listReferrers } from '../manifests.store.ts'
import { findRepository, listRepositoryNames } from '../repositories.store.ts'
import { listTagNames, listTagNamesOf } from '../tags.store.ts'
import type { OciCall } from './oci-call.ts'
import { ociError } from './oci-errors.ts'

const catalogPageSize = 1000
const indexType = 'application/vnd.oci.image.index.v1+json'

/** As bytes: to a text the server would add a charset, and the type of an index is exact. */
const json = (value: unknown, headers: Record<string, string> = {}) =>
  new Answer({ headers: { 'content-type': 'application/json', ...headers }, body: Buffer.from(JSON.stringify(value)) })

/** `n`, or null when absent or no number: the specification lets a registry choose then. */
function pageSize(query: URLSearchParams): number | null {
  const text = query.get('n')
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null
}

/** The address of the next page, when there are more items than the page takes. @source contract B9.13 */
function nextPage(path: string, n: number, items: string[]): Record<string, string> {
  if (items.length <= n || n === 0) return {}
  return { link: `<${path}?n=${n}&last=${encodeURIComponent(items[n - 1]!)}>; rel="next"` }
}

/** Repositories of the token's tenant. */
export async function answerCatalog(call: OciCall): Promise<Answer> {
  const n = pageSize(call.query) ?? catalogPageSize
  const last = call.query.get('last') ?? ''
  const names = await call.look((tx) => listRepositoryNames(tx, call.ctx.tenant.id, last, n + 1))
  return json({ repositories: names.slice(0, n) }, nextPage('/v2/_catalog', n, names))
}

export async function answerTags(call: OciCall, name: string): Promise<Answer> {
  const n = pageSize(call.query)
  const tags = await readTags(call, name, { after: call.query.get('last') ?? '', limit: n === null ? null : n + 1 })
  if (!tags) throw ociError('NAME_UNKNOWN', { detail: { name } })
  if (n === null) return json({ name, tags })
  return json({ name, tags: tags.slice(0, n) }, nextPage(`/v2/${name}/tags/list`, n, tags))
}

/** Null for an unknown repository. */
function readTags(call: OciCall, name: string, page: { after: string; limit: number | null }) {
  if (!call.shared) return listTagNames(call.ctx.db, call.ctx.tenant.id, name, page)
  return call.look(async (tx) => {
    const repository = await findRepository(tx, name)
    return repository?.pushedAt ? listTagNamesOf(tx, repository.id, page) : null
  })
}

/** An index of the manifests about `subject`, empty when there are none. @source contract B9.14 */
export async function answerReferrers(call: OciCall, name: string, subject: string): Promise<Answer> {
  const artifactType = call.query.get('artifactType')
  const rows = await call.look((tx) => listReferrers(tx, name, subject, artifactType))
  const manifests = rows.map(({ mediaType, digest, size, artifactType: type, annotations }) => ({
    mediaType,
    digest,
    size,
    ...(type ? { artifactType: type } : {}),
    ...(Object.keys(annotations as object).length > 0 ? { annotations } : {}),
  }))
  const filtered: Record<string, string> = artifactType === null ? {} : { 'oci-filters-applied': 'artifactType' }
  return json({ schemaVersion: 2, mediaType: indexType, manifests }, { 'content-type': indexType, ...filtered })
}
