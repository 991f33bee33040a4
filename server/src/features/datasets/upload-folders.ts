import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Services } from '../../platform/context.ts'
import { isUuid } from '../../platform/ids.ts'

/** Where the chunks of a session lie: on the file system of the blobs, so that finished uploads are moved, not copied. */
const root = (services: Pick<Services, 'config'>) => join(services.config.dataDir, 'uploads')

export const uploadFolder = (services: Pick<Services, 'config'>, uploadId: string): string =>
  join(root(services), uploadId)

/** The file of a session; its folder is made when absent. */
export async function uploadPath(services: Pick<Services, 'config'>, uploadId: string): Promise<string> {
  const folder = uploadFolder(services, uploadId)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  return join(folder, 'content')
}

export async function removeUploadFolder(services: Pick<Services, 'config'>, uploadId: string): Promise<void> {
  await rm(uploadFolder(services, uploadId), { recursive: true, force: true })
}

/** Ids of the sessions that have a folder. */
export async function listUploadFolders(services: Pick<Services, 'config'>): Promise<string[]> {
  const names = await readdir(root(services)).catch(() => [])
  return names.filter(isUuid)
}
