import { readdir, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import {
  configType,
  layerType,
  manifestType,
  type OciClient,
  pushBlob,
  putManifest,
  sha256,
} from '../src/features/registry/registry.fixture.ts'

/** An image that the registry acknowledged. */
export interface KnownImage {
  digest: string
  /** Digests of its layers and its configuration. */
  blobs: string[]
}

const descriptor = (mediaType: string, bytes: Buffer) => ({ mediaType, digest: sha256(bytes), size: bytes.length })

/** Pushes an image of its own over layers that others may have too; null when a sweep took a layer on the way. */
export async function pushOver(
  client: OciClient,
  repository: string,
  tag: string,
  layers: Buffer[],
): Promise<KnownImage | null> {
  const config = Buffer.from(JSON.stringify({ architecture: 'amd64', os: 'linux', config: { Labels: { tag } } }))
  for (const bytes of [...layers, config]) await pushBlob(client, repository, bytes)
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: manifestType,
    config: descriptor(configType, config),
    layers: layers.map((bytes) => descriptor(layerType, bytes)),
  })
  const reply = await putManifest(client, repository, tag, manifest)
  if (reply.status === 404 && reply.body.errors[0].code === 'MANIFEST_BLOB_UNKNOWN') return null
  expect(reply.status, reply.text).toBe(201)
  return { digest: sha256(manifest), blobs: [...layers, config].map(sha256) }
}

/** Reads all of an image: the bytes must be what their digests say. */
export async function requireWhole(client: OciClient, repository: string, image: KnownImage): Promise<void> {
  const read = async (path: string) => {
    const { status, bytes } = await client('GET', `/v2/${repository}/${path}`)
    return [status, sha256(bytes)]
  }
  expect(await read(`manifests/${image.digest}`)).toEqual([200, image.digest])
  for (const blob of image.blobs) expect(await read(`blobs/${blob}`)).toEqual([200, blob])
}

/** Makes everything in the blob store look as if nobody had used it for two days, so that sweeps want it. */
export async function letContentsAge(dataDir: string): Promise<void> {
  const old = new Date(Date.now() - 2 * 86_400_000)
  const folder = join(dataDir, 'blobs', 'sha256')
  for (const name of await readdir(folder, { recursive: true })) {
    if (name.length > 64) await utimes(join(folder, name), old, old)
  }
}
