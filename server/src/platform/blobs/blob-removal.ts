import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { StoredBlob } from './blob-store.ts'

const batchSize = 500
const blobName = /^[0-9a-f]{64}$/

/** The blobs below `<folder>/<two digits>/`. */
export async function* listBlobs(folder: string): AsyncGenerator<StoredBlob[]> {
  for (const prefix of await readdir(folder)) {
    const names = (await readdir(join(folder, prefix))).filter((name) => blobName.test(name))
    for (let at = 0; at < names.length; at += batchSize) {
      const found = await Promise.all(names.slice(at, at + batchSize).map((name) => look(join(folder, prefix), name)))
      yield found.filter((blob) => blob !== null)
    }
  }
}

async function look(folder: string, name: string): Promise<StoredBlob | null> {
  const info = await unlessGone(stat(join(folder, name)))
  return info && { digest: `sha256:${name}`, size: info.size, usedAt: info.mtime }
}

/**
 * Removes a file whose time of change lies before `before`.
 *
 * It is put aside first and looked at once more: who marks it as used either still finds it in its place, and it is put
 * back, or finds nothing and brings it again.
 */
export async function removeUnused(path: string, aside: string, before: Date): Promise<boolean> {
  if (!(await isUnused(path, before))) return false
  try {
    await rename(path, aside)
  } catch (error) {
    if (isGone(error)) return false
    throw error
  }
  if (await isUnused(aside, before)) {
    await rm(aside, { force: true })
    return true
  }
  await unlessGone(rename(aside, path))
  return false
}

async function isUnused(path: string, before: Date): Promise<boolean> {
  const info = await unlessGone(stat(path))
  return info !== null && info.mtimeMs < before.getTime()
}

/** Puts back what a process that died had put aside: whether it is still in use is for the next sweep to say. */
export async function putBack(asideFolder: string, pathOf: (digest: string) => string): Promise<void> {
  await mkdir(asideFolder, { recursive: true, mode: 0o700 })
  for (const name of await readdir(asideFolder)) {
    if (blobName.test(name)) await unlessGone(rename(join(asideFolder, name), pathOf(`sha256:${name}`)))
  }
}

const isGone = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT'

async function unlessGone<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work
  } catch (error) {
    if (isGone(error)) return null
    throw error
  }
}
