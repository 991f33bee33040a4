import { existsSync } from 'node:fs'
import { readFile, realpath } from 'node:fs/promises'
import { dirname, join, parse } from 'node:path'

interface PackageJson {
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
  peerDependencies?: Record<string, string>
  peerDependenciesMeta?: Record<string, { optional?: boolean }>
  os?: string[]
  cpu?: string[]
  libc?: string[]
}

/** A package as installed: where Node's resolution finds it, and where its files really are (a workspace is a link). */
export interface InstalledPackage {
  folder: string
  realFolder: string
}

/** The system a package must run on, in npm's words (`linux`, `x64`, `glibc`). */
export interface Target {
  os: string
  cpu: string
  libc: string
}

/**
 * Everything a package needs at run time, found as Node finds it: `node_modules` of its folder, then of each parent.
 * Packages for other systems are left out; so is whatever is optional and absent. A missing dependency is an error.
 * @source Node.js "Loading from node_modules folders", npm package.json "os", "cpu", "libc"
 */
export async function packageClosure(rootFolder: string, target: Target): Promise<InstalledPackage[]> {
  const found = new Map<string, InstalledPackage>()
  const visit = async (folder: string): Promise<void> => {
    const manifest = await readManifest(folder)
    for (const { name, optional } of needs(manifest)) {
      const installed = findPackage(name, folder)
      if (!installed) {
        if (optional) continue
        throw new Error(`${name}, which ${folder} needs, is not installed`)
      }
      if (found.has(installed) || !runsOn(await readManifest(installed), target)) continue
      const realFolder = await realpath(installed)
      found.set(installed, { folder: installed, realFolder })
      await visit(realFolder)
    }
  }
  await visit(rootFolder)
  return [...found.values()].sort((a, b) => (a.folder < b.folder ? -1 : 1))
}

function needs(manifest: PackageJson): { name: string; optional: boolean }[] {
  const optional = new Set([
    ...Object.keys(manifest.optionalDependencies ?? {}),
    ...Object.entries(manifest.peerDependenciesMeta ?? {}).flatMap(([name, meta]) => (meta.optional ? [name] : [])),
  ])
  const names = new Set([
    ...Object.keys(manifest.dependencies ?? {}),
    ...Object.keys(manifest.optionalDependencies ?? {}),
    ...Object.keys(manifest.peerDependencies ?? {}).filter((name) => !manifest.peerDependenciesMeta?.[name]?.optional),
  ])
  return [...names].map((name) => ({ name, optional: optional.has(name) }))
}

function findPackage(name: string, fromFolder: string): string | null {
  for (let folder = fromFolder; ; folder = dirname(folder)) {
    const candidate = join(folder, 'node_modules', name)
    if (existsSync(join(candidate, 'package.json'))) return candidate
    if (folder === parse(folder).root) return null
  }
}

function runsOn(manifest: PackageJson, target: Target): boolean {
  return (['os', 'cpu', 'libc'] as const).every((aspect) => {
    const list = manifest[aspect]
    if (!list || list.length === 0) return true
    if (list.includes(`!${target[aspect]}`)) return false
    return list.includes(target[aspect]) || list.every((item) => item.startsWith('!'))
  })
}

async function readManifest(folder: string): Promise<PackageJson> {
  return JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as PackageJson
}
