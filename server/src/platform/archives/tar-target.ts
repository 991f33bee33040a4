import { chmod, link, lstat, mkdir, readdir, rm, symlink } from 'node:fs/promises'
import { basename, dirname, join, posix } from 'node:path'
import { ArchiveError } from './archive-error.ts'

/** The folder that a tar archive is unpacked into; every path given and returned is relative to it unless noted. */
export interface TarTarget {
  /** The path that an entry's name means: '' for the folder itself. Throws `ArchiveError` when it leads out. */
  pathOf(name: string): string
  /** Applies the entry when it is a whiteout; says whether it was. */
  whiteOut(path: string): Promise<boolean>
  /** Makes a folder, or keeps the one that is there. */
  folder(path: string, mode?: number): Promise<void>
  /** Frees a path for a new file and returns it absolute. */
  vacate(path: string): Promise<string>
  symlink(path: string, target: string): Promise<void>
  hardLink(path: string, target: string): Promise<void>
}

const unsafe = (name: string) =>
  new ArchiveError('unsafe_path', 'The archive holds an entry whose path leads elsewhere', name)

export function tarTarget(root: string): TarTarget {
  /** Folders known to be real ones, all the way up. */
  const real = new Set([''])
  /** What this archive brought: whiteouts concern only what was there before. */
  const brought = new Set<string>()

  async function enter(folder: string): Promise<void> {
    if (real.has(folder)) return
    await enter(parentOf(folder))
    const there = await find(join(root, folder))
    if (!there) await mkdir(join(root, folder), { mode: 0o755 })
    else if (!there.isDirectory()) throw unsafe(folder)
    real.add(folder)
    brought.add(folder)
  }

  async function clear(path: string): Promise<void> {
    await rm(join(root, path), { recursive: true, force: true })
    for (const known of real) if (known === path || known.startsWith(`${path}/`)) real.delete(known)
  }

  async function vacate(path: string): Promise<string> {
    if (path === '') throw unsafe('.')
    await enter(parentOf(path))
    if (await find(join(root, path))) await clear(path)
    brought.add(path)
    return join(root, path)
  }

  async function removeOlder(path: string): Promise<void> {
    if (!brought.has(path)) return clear(path)
    for (const name of await readdir(join(root, path)).catch(() => [])) await removeOlder(posix.join(path, name))
  }

  return {
    pathOf,
    vacate,
    async whiteOut(path) {
      const name = basename(path)
      if (!name.startsWith('.wh.')) return false
      const parent = parentOf(path)
      await enter(parent)
      if (name === '.wh..wh..opq') await removeOlder(parent)
      else if (['', '.', '..'].includes(name.slice(4))) throw unsafe(path)
      else await removeOlder(posix.join(parent, name.slice(4)))
      return true
    },
    async folder(path, mode = 0o755) {
      if (path === '') return
      await enter(parentOf(path))
      const there = await find(join(root, path))
      if (there && !there.isDirectory()) await clear(path)
      await enter(path)
      await chmod(join(root, path), (mode & 0o777) | 0o700)
    },
    async symlink(path, target) {
      await symlink(insideTarget(path, target), await vacate(path))
    },
    async hardLink(path, target) {
      const source = pathOf(target)
      await enter(parentOf(source))
      // A link to a symbolic link would carry its relative target to another depth, and so perhaps out.
      if (!(await find(join(root, source)))?.isFile() || source === path) throw unsafe(target)
      await link(join(root, source), await vacate(path))
    },
  }
}

const parentOf = (path: string) => (path.includes('/') ? dirname(path) : '')

function pathOf(name: string): string {
  const parts = name.split('/').filter((part) => part !== '' && part !== '.')
  if (parts.includes('..') || name.includes('\0')) throw unsafe(name)
  return parts.join('/')
}

/**
 * The target that a link gets: relative, with all its `..` in front. Its own folder is a real one, so these lead to
 * where they seem to, and no later part leads up; a chain of such links therefore never leaves the folder either.
 */
function insideTarget(path: string, target: string): string {
  const depth = path.split('/').length - 1
  const up = '../'.repeat(depth)
  const normal = posix.normalize(target.startsWith('/') ? up + posix.normalize(target).slice(1) : target)
  const climbs = normal.split('/').filter((part) => part === '..').length
  if (target === '' || target.includes('\0') || climbs > depth) throw unsafe(`${path} -> ${target}`)
  return normal || '.'
}

const find = (path: string) => lstat(path).catch((error) => (error.code === 'ENOENT' ? null : Promise.reject(error)))
