import { resolve } from 'node:path'
import type { BlobStore } from '../../../platform/blobs/blob-store.ts'
import { serviceUnavailable } from '../../../platform/errors.ts'
import type { Descriptor, ImageBuilder, ImageBuildRequest } from '../image-builder.ts'
import { baseLayerEntries, nodeVersion, pinnedNode } from './base-layer.ts'
import { configMediaType, imageConfig, imageManifest, manifestMediaType, serverSettings } from './image-config.ts'
import { type Layer, writeLayer } from './layer-blob.ts'
import { fingerprintOf, layerCache } from './layer-cache.ts'
import { modelLayerEntries } from './model-layer.ts'
import type { Target } from './package-closure.ts'
import { serverLayerEntries } from './server-layer.ts'
import { contentBytes, type LayerEntry } from './tar-stream.ts'

export interface LayersBuilderOptions {
  store: BlobStore
  /** Where the index of finished layers is kept; made when absent, may be emptied at any time. */
  cacheFolder: string
  /** The `model-server` package, installed. */
  serverFolder?: string
  /** The Node program that goes into images, 24 or newer; by default the one this project pins. */
  nodePath?: string
}

interface LayerPlan {
  title: string
  entries: LayerEntry[]
  /** Key of a layer that other images share, or null for one that is this image's own. */
  fingerprint: string | null
}

const libraries = /\.(node|so(\.[\d.]+)?)$/

/**
 * The image builder without a daemon: base (Node and its libraries), model server and model, one layer each, written
 * straight into the store. The first two are made once and found again by fingerprint.
 */
export function layersImageBuilder(options: LayersBuilderOptions): ImageBuilder {
  const { store } = options
  const serverFolder = resolve(options.serverFolder ?? `${import.meta.dirname}/../../../../../model-server`)
  const nodePath = options.nodePath ?? pinnedNode()
  const cache = layerCache(options.cacheFolder, store)

  const platformEntries = async () => {
    const server = await serverLayerEntries(serverFolder, targetSystem())
    return { server, base: await baseLayerEntries(nodePath, nativePaths(server, serverFolder)) }
  }

  const plan = async (request: ImageBuildRequest): Promise<LayerPlan[]> => {
    const model = modelLayerEntries(store, request.model.files)
    const { server, base } = await platformEntries()
    return [
      {
        title: `node ${await nodeVersion(nodePath)} and its libraries`,
        entries: base,
        fingerprint: fingerprintOf(base),
      },
      { title: 'model server', entries: server, fingerprint: fingerprintOf(server) },
      { title: 'model', entries: model, fingerprint: null },
    ]
  }

  const layersOf = async (plans: LayerPlan[], { signal, log, progress }: ImageBuildRequest): Promise<Layer[]> => {
    const found = await Promise.all(plans.map(({ fingerprint }) => (fingerprint ? cache.find(fingerprint) : null)))
    const wrote = byteProgress(
      plans.filter((_, index) => !found[index]),
      progress,
    )
    const layers: Layer[] = []
    for (const [index, { title, entries, fingerprint }] of plans.entries()) {
      const started = performance.now()
      const cached = found[index]
      const writing = { compress: fingerprint !== null, signal, wrote: (bytes: number) => wrote(bytes, title) }
      const layer = cached ?? (await writeLayer(store, entries, writing))
      if (!cached && fingerprint) await cache.keep(fingerprint, layer)
      log?.(layerLine(title, layer, entries, cached ? null : performance.now() - started))
      layers.push(layer)
    }
    return layers
  }

  return {
    driver: 'layers',
    async check() {
      await nodeVersion(nodePath)
      await platformEntries()
    },
    async build(request) {
      const { signal, log } = request
      signal?.throwIfAborted()
      const settings = serverSettings(request.variant?.buildArgs ?? {})
      const plans = await plan(request)
      const layers = await layersOf(plans, request)
      // From here on it is a matter of two small files: a cancel no longer stops it, so nothing is left half done.
      const titled = plans.map(({ title }, index) => ({ title, layer: layers[index] as Layer }))
      const config = await putBytes(store, configMediaType, imageConfig(request, settings, titled))
      const manifest = await putBytes(store, manifestMediaType, imageManifest(config, layers))
      log?.(`manifest ${manifest.digest}`)
      request.progress?.(1, 'image stored')
      const sizeBytes = [manifest, config, ...layers].reduce((sum, { size }) => sum + size, 0)
      return { manifest, config, layers: layers.map(({ diffId, ...descriptor }) => descriptor), sizeBytes }
    },
  }
}

async function putBytes(store: BlobStore, mediaType: string, bytes: Buffer): Promise<Descriptor> {
  const content = (async function* () {
    yield bytes
  })()
  return { mediaType, ...(await store.put(content)) }
}

function targetSystem(): Target {
  if (process.platform !== 'linux') throw serviceUnavailable('Images from layers are built on Linux only.')
  return { os: process.platform, cpu: process.arch, libc: 'glibc' }
}

function nativePaths(server: LayerEntry[], serverFolder: string): string[] {
  const files = server.filter(({ kind, path }) => kind === 'file' && libraries.test(path))
  return files.map(({ path }) => resolve(serverFolder, '..', path.slice('srv/'.length)))
}

/** Turns bytes written into shares of the whole, told at every whole percent. */
function byteProgress(plans: LayerPlan[], progress: ImageBuildRequest['progress']) {
  const total = plans.reduce((sum, { entries }) => sum + contentBytes(entries), 0)
  let written = 0
  let told = 0
  return (bytes: number, title: string) => {
    written += bytes
    // Headers and padding count too, hence the lid: 1 is told only when the image is stored.
    const percent = Math.min(99, Math.floor((written / Math.max(total, 1)) * 100))
    if (percent <= told) return
    told = percent
    progress?.(percent / 100, `${title}: ${megabytes(written)} of ${megabytes(total)} in all`)
  }
}

function layerLine(title: string, layer: Layer, entries: LayerEntry[], milliseconds: number | null): string {
  const how = milliseconds === null ? 'already in the store' : `written in ${(milliseconds / 1000).toFixed(1)} s`
  return `${title}: ${entries.length} entries, ${megabytes(contentBytes(entries))}, stored as ${megabytes(layer.size)}, ${how}: ${layer.digest}`
}

const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`
