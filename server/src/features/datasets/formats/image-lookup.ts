import type { FormatContext, FormatFile, Survey } from './dataset-format.ts'
import { imageExtensions } from './dataset-format.ts'

const foldersMax = 200

/** Folders that hold images, those nearest to `folder` first. */
export function imageFoldersNear(survey: Survey, folder: string): string[] {
  const own = folder === '' ? [] : folder.split('/')
  const distance = (other: string) => {
    const parts = other === '' ? [] : other.split('/')
    let shared = 0
    while (shared < own.length && shared < parts.length && own[shared] === parts[shared]) shared++
    return own.length - shared + (parts.length - shared)
  }
  return [...survey.folders]
    .filter(([, extensions]) => imageExtensions.some((extension) => extensions.has(extension)))
    .map(([name]) => name)
    .sort((a, b) => distance(a) - distance(b) || (a < b ? -1 : 1))
    .slice(0, foldersMax)
}

export const joinPath = (folder: string, name: string): string => {
  const clean = name.replaceAll('\\', '/').replace(/^(\.?\/)+/, '')
  return folder === '' ? clean : `${folder}/${clean}`
}

export const folderOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')))
export const stemOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1).replace(/\.[^.]*$/, '')

/** For each list of candidates the first that is there, or null. */
export async function findFirst(
  context: Pick<FormatContext, 'find'>,
  candidates: string[][],
): Promise<(FormatFile | null)[]> {
  const found = await context.find([...new Set(candidates.flat())])
  return candidates.map((paths) => {
    const path = paths.find((candidate) => found.has(candidate))
    return path === undefined ? null : found.get(path)!
  })
}
