import { createReadStream, createWriteStream } from 'node:fs'
import { open, readFile, stat } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { digestOfFile } from '../../platform/blobs/digest.ts'
import {
  type ArchivedBlob,
  type ArchivedImage,
  type ArchiveFolder,
  importFault,
  parseArchivedName,
} from './image-archive.ts'
import { parseManifest } from './oci/oci-manifests.ts'

interface Entry {
  Config?: unknown
  RepoTags?: unknown
  Layers?: unknown
}

const manifestType = 'application/vnd.docker.distribution.manifest.v2+json'
const configType = 'application/vnd.docker.container.image.v1+json'
const layerType = 'application/vnd.docker.image.rootfs.diff.tar.gzip'

/**
 * The images of a `docker save` archive, or null when the folder is none. The archive has no manifest of the
 * protocol, so one is made: schema 2 over the uncompressed layers, byte for byte as containers/image makes it, so that
 * the digest is that of `skopeo copy --preserve-digests`. @source containers/image docker/internal/tarfile
 */
export async function readDockerArchive(folder: ArchiveFolder): Promise<ArchivedImage[] | null> {
  const entries = await folder.json('manifest.json')
  if (!Array.isArray(entries)) return null
  const images: ArchivedImage[] = []
  for (const entry of entries as Entry[]) images.push(await readEntry(folder, entry))
  return images
}

async function readEntry(folder: ArchiveFolder, { Config, RepoTags, Layers }: Entry): Promise<ArchivedImage> {
  const configPath = typeof Config === 'string' ? await folder.find(Config) : null
  if (!configPath) throw importFault('missing_blob', `The archive lacks the configuration ${JSON.stringify(Config)}.`)
  const config = { digest: await digestOfFile(configPath), path: configPath }
  const diffIds = await diffIdsOf(configPath)
  const layers = await readLayers(folder, Array.isArray(Layers) ? Layers : [], diffIds)
  const bytes = await manifestOver(config, layers)
  const names = (Array.isArray(RepoTags) ? RepoTags : []).filter((name) => typeof name === 'string')
  return {
    names: names.map(parseArchivedName),
    manifests: [{ bytes, manifest: parseManifest(bytes, manifestType), blobs: [config, ...layers] }],
  }
}

async function diffIdsOf(path: string): Promise<string[]> {
  try {
    const ids = JSON.parse(await readFile(path, 'utf8')).rootfs.diff_ids
    if (Array.isArray(ids) && ids.every((id) => typeof id === 'string')) return ids
  } catch {
    // Told below.
  }
  throw importFault('no_manifest', 'The configuration does not list the layers (rootfs.diff_ids).')
}

/** Throws `digest_mismatch` unless every layer is what the configuration says. */
async function readLayers(folder: ArchiveFolder, names: unknown[], diffIds: string[]): Promise<ArchivedBlob[]> {
  if (names.length !== diffIds.length) {
    throw importFault('no_manifest', `The archive lists ${names.length} layers, its configuration ${diffIds.length}.`)
  }
  const layers: ArchivedBlob[] = []
  for (const [index, name] of names.entries()) {
    const found = typeof name === 'string' ? await folder.find(name) : null
    if (!found) throw importFault('missing_blob', `The archive lacks the layer ${JSON.stringify(name)}.`)
    const path = await uncompressed(found)
    const digest = await digestOfFile(path)
    if (digest !== diffIds[index]) {
      throw importFault('digest_mismatch', `The layer ${name} is ${digest}, the configuration says ${diffIds[index]}.`)
    }
    layers.push({ digest, path })
  }
  return layers
}

/** Layers go by the digest of their uncompressed bytes; some tools compress them all the same. */
async function uncompressed(path: string): Promise<string> {
  const file = await open(path)
  const start = Buffer.alloc(2)
  await file.read(start, 0, 2, 0).finally(() => file.close())
  if (start.readUInt16BE(0) !== 0x1f8b) return path
  const target = `${path}.uncompressed`
  await pipeline(createReadStream(path), createGunzip({ chunkSize: 256 * 1024 }), createWriteStream(target)).catch(
    (error) => {
      if (/^Z_/.test(error.code ?? '')) throw importFault('bad_tar', 'A layer of the archive is damaged.')
      throw error
    },
  )
  return target
}

/** The order of the keys counts: it makes the digest. */
async function manifestOver(config: ArchivedBlob, layers: ArchivedBlob[]): Promise<Buffer> {
  const descriptor = async (mediaType: string, { digest, path }: ArchivedBlob) => ({
    mediaType,
    size: (await stat(path)).size,
    digest,
  })
  const manifest = {
    schemaVersion: 2,
    mediaType: manifestType,
    config: await descriptor(configType, config),
    layers: await Promise.all(layers.map((layer) => descriptor(layerType, layer))),
  }
  return Buffer.from(JSON.stringify(manifest))
}
