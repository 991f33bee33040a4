import { copyFile, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { namingFullStorage } from './content-batches.ts'

/** Renames on one file system and returns when the new name would survive a power cut; makes the folder when absent. */
export async function moveDurably(from: string, to: string): Promise<void> {
  try {
    await rename(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    await mkdir(dirname(to), { recursive: true, mode: 0o700 })
    await syncFolder(dirname(dirname(to)))
    await rename(from, to)
  }
  await syncFolder(dirname(to))
}

/** Makes names created in or removed from a folder durable. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/** Copies under another name first, so that nobody ever sees half of it. */
export async function copyWhole(from: string, to: string): Promise<void> {
  const partial = `${to}.${process.pid}.partial`
  await namingFullStorage(() => copyFile(from, partial)).catch(async (error) => {
    await rm(partial, { force: true })
    throw error
  })
  await rename(partial, to)
}
