import { type DigestAlgorithm, digestAlgorithm } from './oci-digest.ts'
import { ociError } from './oci-errors.ts'

/** A manifest's tag or digest. */
export type Reference = { tag: string } | { digest: string }

/** What a request below `/v2/` is about; names, references and digests in it are well-formed. */
export type OciRoute =
  | { kind: 'ping'; method: 'GET' | 'HEAD' }
  | { kind: 'catalog'; method: 'GET' }
  | { kind: 'tags'; method: 'GET'; name: string }
  | { kind: 'referrers'; method: 'GET'; name: string; digest: string }
  | { kind: 'manifest'; method: 'GET' | 'HEAD' | 'PUT' | 'DELETE'; name: string; reference: Reference }
  | { kind: 'blob'; method: 'GET' | 'HEAD' | 'DELETE'; name: string; digest: string }
  | { kind: 'uploads'; method: 'POST'; name: string }
  | { kind: 'upload'; method: 'GET' | 'PATCH' | 'PUT' | 'DELETE'; name: string; uploadId: string }

type Kind = OciRoute['kind']
type Place = { kind: Kind; name: string | null; last: string }

/** The methods of each kind of address. @source contract B9.0 */
export const ociMethods: { [K in Kind]: readonly Extract<OciRoute, { kind: K }>['method'][] } = {
  ping: ['GET', 'HEAD'],
  catalog: ['GET'],
  tags: ['GET'],
  referrers: ['GET'],
  manifest: ['GET', 'HEAD', 'PUT', 'DELETE'],
  blob: ['GET', 'HEAD', 'DELETE'],
  uploads: ['POST'],
  upload: ['GET', 'PATCH', 'PUT', 'DELETE'],
}

/** What a route needs in the repository it names: all that has to do with uploads is pushing. @source contract B9.3 */
export function rightOf(route: OciRoute): 'pull' | 'push' | 'delete' {
  if (route.kind === 'uploads' || route.kind === 'upload') return 'push'
  if (route.method === 'DELETE') return 'delete'
  return route.method === 'PUT' ? 'push' : 'pull'
}

const component = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*'
const namePattern = new RegExp(`^${component}(?:/${component})*$`)
const tagPattern = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/
const uuidPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export const isRepositoryName = (text: string) => text.length <= 255 && namePattern.test(text)
export const isTag = (text: string) => tagPattern.test(text)

/**
 * Reads a request's address.
 * @param path as sent, not decoded, without query: what follows `/v2`, so `''`, `/` or `/team/app/tags/list`
 * @throws OciError NAME_INVALID, DIGEST_INVALID, MANIFEST_INVALID, MANIFEST_UNKNOWN, BLOB_UPLOAD_UNKNOWN, NAME_UNKNOWN,
 *   or UNSUPPORTED with the header Allow
 * @source contract B9.0, B9.4, OCI Distribution 1.1 "Endpoints", "Pulling manifests"
 */
export function parseOciPath(method: string, path: string): OciRoute {
  const place = locate(segmentsOf(path))
  if (place.name !== null && !isRepositoryName(place.name)) {
    throw ociError('NAME_INVALID', { detail: { name: place.name } })
  }
  const methods: readonly string[] = ociMethods[place.kind]
  if (!methods.includes(method)) {
    throw ociError('UNSUPPORTED', { detail: { allowed: methods }, headers: { Allow: methods.join(', ') } })
  }
  return {
    kind: place.kind,
    method,
    ...(place.name === null ? {} : { name: place.name }),
    ...subject(method, place),
  } as OciRoute
}

function segmentsOf(path: string): string[] {
  const segments = path.replace(/^\//, '').split('/')
  try {
    // Decoded one by one: a `%2F` must not become a border between segments.
    return segments.map(decodeURIComponent)
  } catch {
    throw ociError('NAME_INVALID', { detail: { path } })
  }
}

/** Read from the end: a repository may have `blobs`, `manifests` or `tags` inside its name. */
function locate(segments: string[]): Place {
  const last = segments.at(-1) as string
  if (segments.length === 1 && last === '') return { kind: 'ping', name: null, last }
  if (segments.length === 1 && last === '_catalog') return { kind: 'catalog', name: null, last }
  const before = segments.at(-2)
  const at = (kind: Kind, tailLength: number): Place => ({ kind, name: segments.slice(0, -tailLength).join('/'), last })
  if (before === 'uploads' && segments.at(-3) === 'blobs') return at(last === '' ? 'uploads' : 'upload', 3)
  if (before === 'blobs' && last === 'uploads') return at('uploads', 2)
  if (before === 'tags' && last === 'list') return at('tags', 2)
  if (before === 'manifests') return at('manifest', 2)
  if (before === 'blobs') return at('blob', 2)
  if (before === 'referrers') return at('referrers', 2)
  throw ociError('NAME_UNKNOWN', { message: 'There is no such address in the registry.', detail: null })
}

function subject(method: string, { kind, last }: Place): object {
  if (kind === 'blob' || kind === 'referrers') return { digest: requireDigest(last) }
  if (kind === 'manifest') return { reference: referenceOf(method, last) }
  if (kind !== 'upload') return {}
  if (!uuidPattern.test(last)) throw ociError('BLOB_UPLOAD_UNKNOWN', { detail: { upload: last } })
  return { uploadId: last }
}

function referenceOf(method: string, text: string): Reference {
  if (text.includes(':')) return { digest: requireDigest(text) }
  if (isTag(text)) return { tag: text }
  // A tag that can't exist is unknown to a reader, and a fault of the writer.
  throw ociError(method === 'PUT' ? 'MANIFEST_INVALID' : 'MANIFEST_UNKNOWN', { detail: { reference: text } })
}

function requireDigest(text: string): string {
  if (!digestAlgorithm(text)) throw ociError('DIGEST_INVALID', { detail: { digest: text } })
  return text
}

/** How a client wants to begin an upload. */
export type UploadStart =
  | { kind: 'session'; algorithm: DigestAlgorithm }
  /** The whole blob is in this request's body. */
  | { kind: 'monolithic'; digest: string }
  /** Take the blob from another repository, or from any readable one when `from` is null. */
  | { kind: 'mount'; digest: string; from: string | null }

/** Reads the query of `POST <name>/blobs/uploads/`. @source contract B9.9, B9.10 */
export function parseUploadStart(query: URLSearchParams): UploadStart {
  const mount = query.get('mount')
  if (mount !== null) {
    const from = query.get('from')
    if (from !== null && !isRepositoryName(from)) throw ociError('NAME_INVALID', { detail: { name: from } })
    return { kind: 'mount', digest: requireDigest(mount), from }
  }
  const digest = query.get('digest')
  if (digest !== null) return { kind: 'monolithic', digest: requireDigest(digest) }
  const algorithm = query.get('digest-algorithm') ?? 'sha256'
  if (algorithm !== 'sha256' && algorithm !== 'sha512') throw ociError('DIGEST_INVALID', { detail: { algorithm } })
  return { kind: 'session', algorithm }
}

/** The digest that ends an upload: `PUT …/blobs/uploads/<uuid>?digest=`. @throws OciError DIGEST_INVALID @source contract B9.9 */
export function parseUploadEnd(query: URLSearchParams): string {
  return requireDigest(query.get('digest') ?? '')
}
