import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { realpath } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { serviceUnavailable } from '../../../platform/errors.ts'
import { diskFile, textFile } from './disk-file.ts'
import type { LayerEntry } from './tar-stream.ts'

const caBundle = '/etc/ssl/certs/ca-certificates.crt'

/** The unprivileged user of every serving image; the number that distroless images use. */
export const imageUser = 65532

/**
 * Node, the shared libraries that it and the given native files need with the loader, certificates, and the few files
 * that programs expect of a system. Nothing else: no shell, no package manager.
 * @param nativeFiles absolute paths of the server layer's libraries and Node add-ons
 */
export async function baseLayerEntries(nodePath: string, nativeFiles: string[]): Promise<LayerEntry[]> {
  const libraries = await sharedLibraries([nodePath, ...nativeFiles])
  return [
    await diskFile('usr/bin/node', await realpath(nodePath), 0o755),
    ...(await Promise.all(libraries.map((library) => diskFile(library.slice(1), library, 0o755)))),
    ...(existsSync(caBundle) ? [await diskFile(caBundle.slice(1), caBundle)] : []),
    textFile(
      'etc/passwd',
      `root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:${imageUser}:${imageUser}:nonroot:/tmp:/sbin/nologin\n`,
    ),
    textFile('etc/group', `root:x:0:\nnonroot:x:${imageUser}:\n`),
    { kind: 'folder', path: 'tmp', mode: 0o1777 },
  ]
}

/** The Node program from this project's lockfile, or the one running now where there is none for this system. */
export function pinnedNode(): string {
  try {
    const manifest = createRequire(import.meta.url).resolve(`node-linux-${process.arch}/package.json`)
    return join(dirname(manifest), 'bin/node')
  } catch {
    return process.execPath
  }
}

/** `v24.21.0`; refuses a Node that can't run the model server, whose sources are TypeScript. */
export async function nodeVersion(nodePath: string): Promise<string> {
  const { stdout } = await promisify(execFile)(nodePath, ['--version'], { env: {} })
  const version = stdout.trim()
  if (Number(/^v(\d+)\./.exec(version)?.[1] ?? 0) < 24) {
    throw serviceUnavailable(`Serving images need Node 24 or newer; this platform runs on ${version}.`)
  }
  return version
}

/** The closure of shared libraries as the loader resolves it, with the loader, less the given files themselves. */
async function sharedLibraries(files: string[]): Promise<string[]> {
  // An empty environment: LD_LIBRARY_PATH or LD_PRELOAD of ours must not decide what goes into images.
  const { stdout } = await promisify(execFile)('ldd', files, { env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' } })
  const missing = /^\s+(\S+) => not found/m.exec(stdout)
  if (missing) throw new Error(`the library ${missing[1]} is missing on this machine`)
  const own = new Set(await Promise.all(files.map((file) => realpath(file))))
  const paths = new Set(Array.from(stdout.matchAll(/(?:=> |^\s+)(\/.+) \(0x/gm), (match) => match[1] as string))
  const foreign = await Promise.all([...paths].map(async (path) => (own.has(await realpath(path)) ? [] : [path])))
  return foreign.flat().sort()
}
