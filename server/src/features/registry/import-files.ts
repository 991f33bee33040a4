import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { appendFiles } from '../../platform/blobs/append-file.ts'
import type { Config } from '../../platform/config.ts'

/** Archives that arrive in this process. */
export const arrivals = appendFiles()

export const importFolder = (config: Config): string => join(config.dataDir, 'registry', 'imports')

/** Where an archive is gathered. */
export const archivePath = (config: Config, id: string): string => join(importFolder(config), id)

/** Where an archive is unpacked; on the file system of the blob store, so that what is kept is linked, not copied. */
export const unpackedPath = (config: Config, id: string): string => join(importFolder(config), `${id}.unpacked`)

export async function prepareImportFolder(config: Config): Promise<void> {
  await mkdir(importFolder(config), { recursive: true, mode: 0o700 })
}

/** Removes what an import has on the disk, if anything is left. */
export async function removeImportFiles(config: Config, id: string): Promise<void> {
  await arrivals.remove(archivePath(config, id))
  await rm(unpackedPath(config, id), { recursive: true, force: true })
}
