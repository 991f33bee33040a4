import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type AppendFiles, appendFiles } from '../../platform/blobs/append-file.ts'
import type { Config } from '../../platform/config.ts'

export type UploadFiles = AppendFiles & { pathOf(id: string): string }

/** Where bytes wait until their upload ends; beside the blob store, so that the end is a rename. */
export const uploadFolder = (config: Config): string => join(config.dataDir, 'registry', 'uploads')

export async function openUploadFiles(config: Config): Promise<UploadFiles> {
  const folder = uploadFolder(config)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  return { ...appendFiles(), pathOf: (id) => join(folder, id) }
}
