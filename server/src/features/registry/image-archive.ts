import { readFile, realpath, stat } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { PlatformError } from '../../platform/errors.ts'
import { type Manifest, manifestMaxBytes } from './oci/oci-manifests.ts'

/** A manifest of an archive with the files that hold what it needs. */
export interface ArchivedManifest {
  bytes: Buffer
  manifest: Manifest
  blobs: ArchivedBlob[]
}

export interface ArchivedBlob {
  /** As the manifest names it. */
  digest: string
  /** Absolute. */
  path: string
}

export interface ArchivedName {
  /** Null when the archive gives a tag alone. */
  repository: string | null
  tag: string | null
}

export interface ArchivedImage {
  /** As the archive calls it; none when it has no name. */
  names: ArchivedName[]
  /** What an index lists comes before it; the last one is what the names mean. */
  manifests: ArchivedManifest[]
}

export type ImportFault =
  | 'bad_tar'
  | 'no_manifest'
  | 'digest_mismatch'
  | 'missing_blob'
  | 'no_name'
  | 'bad_name'
  | 'several_images'
  | 'quota'

/** A reason to refuse an archive; it ends the import and is shown to the person who sent it. */
export const importFault = (code: ImportFault, message: string) =>
  new PlatformError('unprocessable_entity', message, { detail: { code } })

/** Files of an unpacked archive, addressed as the archive's own documents do; links are followed, never out. */
export interface ArchiveFolder {
  /** Null when there is no such file. */
  find(path: string): Promise<string | null>
  /** A small JSON document; null when there is none. */
  json(path: string): Promise<unknown>
}

export async function archiveFolder(folder: string): Promise<ArchiveFolder> {
  const root = (await realpath(folder)) + sep
  const find = async (path: string) => {
    const found = await realpath(join(root, path)).catch(() => null)
    return found?.startsWith(root) && (await stat(found)).isFile() ? found : null
  }
  return {
    find,
    async json(path) {
      const found = await find(path)
      if (!found) return null
      if ((await stat(found)).size > manifestMaxBytes) throw importFault('no_manifest', `${path} is too long.`)
      try {
        return JSON.parse(await readFile(found, 'utf8'))
      } catch {
        throw importFault('no_manifest', `${path} is not JSON.`)
      }
    },
  }
}

/** `host/team/app:v1` as the archive may write it; the host is left out. */
export function parseArchivedName(text: string): ArchivedName {
  const name = text.split('@', 1)[0]!
  const colon = name.lastIndexOf(':')
  const hasTag = colon > name.lastIndexOf('/')
  const repository = hasTag ? name.slice(0, colon) : name
  const [first, ...rest] = repository.split('/')
  const isHost = rest.length > 0 && /[.:]|^localhost$/.test(first!)
  return { repository: isHost ? rest.join('/') : repository, tag: hasTag ? name.slice(colon + 1) : null }
}
