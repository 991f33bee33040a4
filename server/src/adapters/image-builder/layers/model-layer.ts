import type { BlobStore } from '../../../platform/blobs/blob-store.ts'
import { invalid } from '../../../platform/errors.ts'
import type { ModelFile } from '../image-builder.ts'
import type { LayerEntry } from './tar-stream.ts'

/** The model folder below `srv/model`, read from the store. Refuses paths that could leave that folder. */
export function modelLayerEntries(store: BlobStore, files: ModelFile[]): LayerEntry[] {
  const unsafe = files.filter(({ path }) => !isInside(path))
  if (files.length === 0 || unsafe.length > 0) {
    const msg = files.length === 0 ? 'the model has no files' : `unsafe paths: ${unsafe.map((f) => f.path).join(', ')}`
    throw invalid({ loc: ['model', 'files'], msg, type: 'value_error' })
  }
  return files.map(({ path, digest, size }) => ({
    kind: 'file',
    path: `srv/model/${path}`,
    mode: 0o644,
    size,
    stamp: digest,
    open: () => store.open(digest),
  }))
}

function isInside(path: string): boolean {
  const clean = path.length > 0 && !path.includes('\0') && !path.includes('\\')
  return clean && path.split('/').every((segment) => segment !== '' && segment !== '.' && segment !== '..')
}
