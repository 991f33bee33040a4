import { createHash, randomUUID } from 'node:crypto'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { BlobStore } from '../../../platform/blobs/blob-store.ts'
import type { Layer } from './layer-blob.ts'
import type { LayerEntry } from './tar-stream.ts'

/** Remembers which layer was made of which entries: one small file per fingerprint; the layers are in the store. */
export interface LayerCache {
  /** The layer of that fingerprint, or null when it was never made or the store no longer has it. */
  find(fingerprint: string): Promise<Layer | null>
  keep(fingerprint: string, layer: Layer): Promise<void>
}

/** Raise when the same entries are to give other bytes: a new tar writer, another compression level. */
const recipe = 1

/** A key over the paths, modes and content stamps of entries; reads no content. */
export function fingerprintOf(entries: LayerEntry[]): string {
  const lines = entries.map((entry) => {
    if (entry.kind === 'file') return [entry.path, entry.kind, entry.mode, entry.size, entry.stamp]
    return [entry.path, entry.kind, entry.kind === 'folder' ? entry.mode : entry.target]
  })
  const text = lines.map((line) => JSON.stringify(line)).sort()
  return createHash('sha256')
    .update(JSON.stringify([recipe, process.versions.zlib, text]))
    .digest('hex')
}

export function layerCache(folder: string, store: BlobStore): LayerCache {
  const pathOf = (fingerprint: string) => join(folder, `${fingerprint}.json`)
  return {
    async find(fingerprint) {
      const layer = await readFile(pathOf(fingerprint), 'utf8').then(parseLayer, () => null)
      if (!layer) return null
      const info = await store.use(layer.digest)
      return info?.size === layer.size ? layer : null
    },
    async keep(fingerprint, layer) {
      await mkdir(folder, { recursive: true })
      const draft = join(folder, `.${randomUUID()}`)
      await writeFile(draft, JSON.stringify(layer))
      await rename(draft, pathOf(fingerprint))
    },
  }
}

/** Null for a file that a failing disk spoiled: the layer is then made again. */
function parseLayer(text: string): Layer | null {
  try {
    return JSON.parse(text) as Layer
  } catch {
    return null
  }
}
