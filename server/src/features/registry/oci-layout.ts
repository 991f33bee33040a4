import { readFile } from 'node:fs/promises'
import {
  type ArchivedImage,
  type ArchivedManifest,
  type ArchivedName,
  type ArchiveFolder,
  importFault,
  parseArchivedName,
} from './image-archive.ts'
import { digestAlgorithm } from './oci/oci-digest.ts'
import { parseManifest } from './oci/oci-manifests.ts'

interface IndexEntry {
  mediaType?: unknown
  digest?: unknown
  annotations?: Record<string, unknown>
}

const maxDepth = 4

/** The images of an OCI layout, or null when the folder is none. @source OCI Image Specification 1.1 "Image Layout" */
export async function readOciLayout(folder: ArchiveFolder): Promise<ArchivedImage[] | null> {
  const index = (await folder.json('index.json')) as { manifests?: unknown } | null
  if (!index || !Array.isArray(index.manifests)) return null
  const images: ArchivedImage[] = []
  for (const entry of index.manifests as IndexEntry[]) {
    const manifests = await readTree(folder, entry, maxDepth)
    if (!manifests) throw importFault('missing_blob', `The archive lacks the manifest ${String(entry.digest)}.`)
    images.push({ names: namesOf(entry), manifests })
  }
  return images
}

/** What the entry's annotations call it: skopeo and podman a name or a tag, containerd and docker both. */
function namesOf({ annotations }: IndexEntry): ArchivedName[] {
  const whole = annotations?.['io.containerd.image.name']
  if (typeof whole === 'string') return [parseArchivedName(whole)]
  const reference = annotations?.['org.opencontainers.image.ref.name']
  if (typeof reference !== 'string' || reference === '') return []
  return [/[:/]/.test(reference) ? parseArchivedName(reference) : { repository: null, tag: reference }]
}

/** The manifest and, before it, what it lists; null when its bytes are not in the archive. */
async function readTree(folder: ArchiveFolder, entry: IndexEntry, depth: number): Promise<ArchivedManifest[] | null> {
  const digest = String(entry.digest)
  if (depth === 0) throw importFault('no_manifest', 'The archive nests lists of images too deeply.')
  const path = await blobPath(folder, digest)
  if (!path) return null
  const bytes = await readFile(path)
  const mediaType = typeof entry.mediaType === 'string' ? entry.mediaType : undefined
  const manifest = { ...parse(bytes, mediaType), digest }
  const children: ArchivedManifest[] = []
  for (const child of manifest.children) {
    // An index may list platforms that were left out of the archive.
    children.push(...((await readTree(folder, child, depth - 1)) ?? []))
  }
  const blobs = await Promise.all(
    manifest.requiredBlobs.map(async (blob) => {
      const found = await blobPath(folder, blob)
      if (!found) throw importFault('missing_blob', `The archive lacks the content ${blob}.`)
      return { digest: blob, path: found }
    }),
  )
  return [...children, { bytes, manifest, blobs }]
}

function parse(bytes: Buffer, mediaType: string | undefined) {
  try {
    return parseManifest(bytes, mediaType)
  } catch (error) {
    throw importFault('no_manifest', (error as Error).message)
  }
}

function blobPath(folder: ArchiveFolder, digest: string): Promise<string | null> {
  const algorithm = digestAlgorithm(digest)
  if (!algorithm) throw importFault('no_manifest', `The archive names ${JSON.stringify(digest)}, which is no digest.`)
  return folder.find(`blobs/${algorithm}/${digest.slice(algorithm.length + 1)}`)
}
