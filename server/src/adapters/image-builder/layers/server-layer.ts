import { readdir } from 'node:fs/promises'
import { basename, dirname, join, posix, relative } from 'node:path'
import { diskFile, sourceFile } from './disk-file.ts'
import { type InstalledPackage, packageClosure, type Target } from './package-closure.ts'
import type { LayerEntry } from './tar-stream.ts'

const systems = new Set(['aix', 'android', 'darwin', 'freebsd', 'linux', 'openbsd', 'sunos', 'win32'])
const architectures = new Set(['arm', 'arm64', 'ia32', 'loong64', 'mips64el', 'ppc64', 'riscv64', 's390x', 'x64'])
const asideFolders = new Set(['test', 'tests', '__tests__', 'doc', 'docs', 'example', 'examples', 'benchmark', 'man'])
/** Maps, prose, C sources, and TypeScript: Node strips no types below `node_modules`, so none of it can run. */
const asideFile = /\.(map|md|markdown|[cm]?ts|tsx|tsbuildinfo|c|cc|cpp|h|hpp|gyp|gypi|pdb|lib)$/i
const license = /^(licen[cs]e|notice|copying)/i

/**
 * The model server and exactly the packages it needs, below `srv/` in the same places relative to each other as here:
 * resolution and the relative library paths inside native files hold without a change.
 */
export async function serverLayerEntries(serverFolder: string, target: Target): Promise<LayerEntry[]> {
  const workspace = dirname(serverFolder)
  const packages = await packageClosure(serverFolder, target)
  const entries = await Promise.all([
    folderEntries(serverFolder, imagePath(workspace, serverFolder), ownSource),
    ...packages.map((installed) => packageEntries(installed, workspace, target)),
  ])
  return entries.flat()
}

async function packageEntries(installed: InstalledPackage, workspace: string, target: Target): Promise<LayerEntry[]> {
  const path = imagePath(workspace, installed.folder)
  if (installed.folder === installed.realFolder) {
    return folderEntries(installed.folder, path, (name, depth) => neededAtRunTime(name, depth, target))
  }
  const realPath = imagePath(workspace, installed.realFolder)
  return [
    { kind: 'link', path, target: posix.relative(posix.dirname(path), realPath) },
    ...(await folderEntries(installed.realFolder, realPath, ownSource)),
  ]
}

function imagePath(workspace: string, folder: string): string {
  const path = relative(workspace, folder)
  if (path.startsWith('..'))
    throw new Error(`${folder} lies outside of ${workspace}: its place in the image is unknown`)
  return posix.join('srv', ...path.split(/[\\/]/))
}

type Wanted = (relativePath: string, depth: number) => boolean

/** Our own packages: the manifest, `src` and data beside it; no tests, and nothing that merely lies around. */
const ownSource: Wanted = (path, depth) =>
  depth === 0 ? path === 'src' || path.endsWith('.json') : !/\.(test|suite)\.ts$/.test(path)

const neededAtRunTime = (path: string, depth: number, target: Target): boolean => {
  const name = basename(path)
  const above = basename(dirname(path))
  // Only at the top: deeper down a folder called `test` may be code.
  if (depth === 0 && asideFolders.has(name)) return false
  if (systems.has(name) && name !== target.os) return false
  if (architectures.has(name) && systems.has(above) && name !== target.cpu) return false
  return license.test(name) || !asideFile.test(name)
}

async function folderEntries(folder: string, path: string, wanted: Wanted): Promise<LayerEntry[]> {
  const layerFile = wanted === ownSource ? sourceFile : diskFile
  const walk = async (below: string, depth: number): Promise<LayerEntry[]> => {
    const items = await readdir(join(folder, below), { withFileTypes: true })
    const kept = items.filter(
      ({ name }) => name !== 'node_modules' && !name.startsWith('.') && wanted(posix.join(below, name), depth),
    )
    const entries = kept.map((item): Promise<LayerEntry[]> | LayerEntry[] => {
      const itemPath = posix.join(below, item.name)
      if (item.isDirectory()) return walk(itemPath, depth + 1)
      if (!item.isFile()) return []
      return layerFile(posix.join(path, itemPath), join(folder, itemPath)).then((file) => [file])
    })
    return (await Promise.all(entries)).flat()
  }
  return walk('', 0)
}
