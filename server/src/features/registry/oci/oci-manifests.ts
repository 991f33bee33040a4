import { digestAlgorithm, digestOfBytes } from './oci-digest.ts'
import { type OciError, ociError } from './oci-errors.ts'
import type { Reference } from './oci-paths.ts'

/** Longest manifest taken, in bytes. @source contract B9.7 */
export const manifestMaxBytes = 4 * 1024 * 1024

const manifestKinds = new Map<string, 'image' | 'index'>([
  ['application/vnd.oci.image.manifest.v1+json', 'image'],
  ['application/vnd.docker.distribution.manifest.v2+json', 'image'],
  ['application/vnd.oci.image.index.v1+json', 'index'],
  ['application/vnd.docker.distribution.manifest.list.v2+json', 'index'],
])

export interface ManifestDescriptor {
  mediaType: string
  digest: string
  /** Length in bytes. */
  size: number
}

export interface Manifest {
  /** Stored and sent as Content-Type, without parameters. */
  mediaType: string
  kind: 'image' | 'index'
  /** Of the bytes as sent, by SHA-256. */
  digest: string
  size: number
  config: ManifestDescriptor | null
  layers: ManifestDescriptor[]
  /** Manifests of an index; they need not exist. */
  children: ManifestDescriptor[]
  /** What this manifest is about; it need not exist. */
  subject: ManifestDescriptor | null
  /** The manifest's own, else the configuration's media type, as lists of referrers show it; null for an index without. */
  artifactType: string | null
  annotations: Record<string, string>
  /** Digests that must be in the repository: configuration and layers, less those that are never distributed. */
  requiredBlobs: string[]
}

/**
 * Reads and checks a manifest. The bytes themselves are what is stored.
 * @throws OciError MANIFEST_INVALID with the faulty place in `detail`; SIZE_INVALID with 413 above `manifestMaxBytes`
 * @source contract B9.7, B9.8, OCI Image Specification 1.1 "Image Manifest", "Image Index"
 */
export function parseManifest(bytes: Uint8Array, contentType: string | undefined): Manifest {
  if (bytes.length > manifestMaxBytes) {
    throw ociError('SIZE_INVALID', {
      status: 413,
      message: 'The manifest is too large.',
      detail: { max_bytes: manifestMaxBytes },
    })
  }
  const body = jsonObject(bytes)
  const mediaType = mediaTypeOf(body, contentType)
  const kind = manifestKinds.get(mediaType)
  if (!kind) throw fault('mediaType', `${mediaType} is not a manifest type that this registry takes`)
  if (body.schemaVersion !== 2) throw fault('schemaVersion', 'must be 2')
  requireOneKind(body, kind)
  const config = kind === 'image' ? descriptor(body.config, 'config') : null
  const layers = descriptors(body.layers, 'layers')
  const blobs = [...(config ? [config] : []), ...layers.filter(isDistributed)]
  return {
    mediaType,
    kind,
    digest: digestOfBytes(bytes),
    size: bytes.length,
    config,
    layers,
    children: descriptors(body.manifests, 'manifests'),
    subject: body.subject == null ? null : descriptor(body.subject, 'subject'),
    artifactType: optionalText(body.artifactType, 'artifactType') || (config?.mediaType ?? null),
    annotations: annotationsOf(body.annotations),
    requiredBlobs: [...new Set(blobs.map(({ digest }) => digest))],
  }
}

/** Throws DIGEST_INVALID unless the bytes have the digest they are put under; a tag takes any. @source contract B9.7 */
export function requireManifestDigest(bytes: Uint8Array, reference: Reference): void {
  if ('tag' in reference) return
  const computed = digestOfBytes(bytes, digestAlgorithm(reference.digest) ?? 'sha256')
  if (computed !== reference.digest) throw ociError('DIGEST_INVALID', { detail: { given: reference.digest, computed } })
}

/** A manifest as an entry in the list of its subject's referrers. @source contract B9.14 */
export function referrerDescriptor({ mediaType, digest, size, artifactType, annotations }: Manifest) {
  const hasAnnotations = Object.keys(annotations).length > 0
  return {
    mediaType,
    digest,
    size,
    ...(artifactType ? { artifactType } : {}),
    ...(hasAnnotations ? { annotations } : {}),
  }
}

type JsonObject = Record<string, unknown>

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function jsonObject(bytes: Uint8Array): JsonObject {
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    throw fault('', 'is not JSON in UTF-8')
  }
  if (!isObject(value)) throw fault('', 'is not a JSON object')
  return value
}

function mediaTypeOf(body: JsonObject, contentType: string | undefined): string {
  const sent = contentType?.split(';', 1)[0]?.trim().toLowerCase() || null
  const own = optionalText(body.mediaType, 'mediaType')
  if (sent && own && sent !== own) throw fault('mediaType', `is ${own}, sent as ${sent}`)
  const mediaType = sent ?? own
  if (!mediaType) throw fault('mediaType', 'neither Content-Type nor mediaType says what this is')
  return mediaType
}

/** A document that is both an image and an index means different things to different clients. @source CVE-2021-41190 */
function requireOneKind(body: JsonObject, kind: 'image' | 'index'): void {
  const foreign = kind === 'image' ? ['manifests', 'fsLayers'] : ['config', 'layers', 'fsLayers']
  const found = foreign.find((key) => body[key] != null)
  if (found) throw fault(found, `does not belong in an ${kind}`)
}

function descriptors(value: unknown, place: string): ManifestDescriptor[] {
  if (value == null) return []
  if (!Array.isArray(value)) throw fault(place, 'must be a list')
  return value.map((item, index) => descriptor(item, `${place}.${index}`))
}

function descriptor(value: unknown, place: string): ManifestDescriptor {
  if (!isObject(value)) throw fault(place, 'must be a descriptor')
  const { mediaType, digest, size } = value
  if (typeof mediaType !== 'string' || !/^[\w.+!#$&^-]+\/[\w.+!#$&^-]+/.test(mediaType)) {
    throw fault(`${place}.mediaType`, 'must be a media type')
  }
  if (typeof digest !== 'string' || !digestAlgorithm(digest)) {
    throw fault(`${place}.digest`, 'must be a sha256 or sha512 digest')
  }
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) {
    throw fault(`${place}.size`, 'must be a length in bytes')
  }
  return { mediaType, digest, size }
}

/** @source OCI Image Specification 1.1 "Non-Distributable Layers", Docker image manifest schema 2 "foreign" */
const isDistributed = ({ mediaType }: ManifestDescriptor) =>
  !mediaType.startsWith('application/vnd.oci.image.layer.nondistributable.') &&
  !mediaType.startsWith('application/vnd.docker.image.rootfs.foreign.')

function annotationsOf(value: unknown): Record<string, string> {
  if (value == null) return {}
  if (!isObject(value)) throw fault('annotations', 'must be an object')
  const wrong = Object.keys(value).find((key) => typeof value[key] !== 'string')
  if (wrong !== undefined) throw fault(`annotations.${wrong}`, 'must be text')
  return value as Record<string, string>
}

function optionalText(value: unknown, place: string): string | null {
  if (value == null) return null
  if (typeof value !== 'string') throw fault(place, 'must be text')
  return value
}

function fault(place: string, message: string): OciError {
  return ociError('MANIFEST_INVALID', {
    message: `The manifest is not valid: ${place} ${message}`,
    detail: { place, message },
  })
}
