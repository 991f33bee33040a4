import { constants } from 'node:fs'
import { type FileHandle, open, opendir, realpath, stat } from 'node:fs/promises'
import { join, resolve, sep } from 'node:path'
import {
  type DirectoryConfig,
  type ExternalSource,
  type Listed,
  SourceError,
  type SourceSettings,
} from './external-sources.ts'

const depthMax = 64
const readBytes = 512 * 1024

/**
 * A folder of this machine, or a share that is mounted there. Only what really lies below it is read: links that lead
 * out are left aside, and what was opened is looked at once more, so that a link put there meanwhile opens nothing.
 */
export function directorySource({ path }: DirectoryConfig, settings: SourceSettings): ExternalSource {
  return {
    async *list(prefix, signal) {
      const root = await resolveRoot(path, settings)
      const folder = await resolveBelow(join(root, prefix), root)
      yield* walk({ root, dataDir: await realpath(settings.dataDir).catch(() => settings.dataDir), signal }, folder)
    },
    async read({ key }, known) {
      const root = await resolveRoot(path, settings)
      const file = await openBelow(root, key, settings)
      const { size, version } = await versionOfFile(file).finally(() => file.close())
      if (version === known) return null
      return { size, version, content: steadyContent(() => openBelow(root, key, settings), version) }
    },
    close() {},
  }
}

/** Where the source really is. Throws `denied` unless the operator allowed it. */
export async function resolveRoot(path: string, { sourceFolders, dataDir }: SourceSettings): Promise<string> {
  const notAllowed = () =>
    new SourceError('denied', 'The folder is not below one that the operator names in PLATFORM_MLOPS_SOURCE_FOLDERS.')
  // By its name first: what lies elsewhere is not even told to be there or not.
  if (!sourceFolders.some((folder) => isBelow(resolve(path), resolve(folder)))) throw notAllowed()
  const root = await realpath(path).catch((error) => {
    throw faultOf(error, 'The folder')
  })
  const allowed = await Promise.all(sourceFolders.map((folder) => realpath(folder).catch(() => null)))
  if (!allowed.some((folder) => folder !== null && isBelow(root, folder))) throw notAllowed()
  if (isBelow(root, await realpath(dataDir).catch(() => dataDir)))
    throw new SourceError('denied', 'The folder belongs to the platform itself.')
  if (!(await stat(root)).isDirectory()) throw new SourceError('invalid', 'It is not a folder.')
  return root
}

async function resolveBelow(path: string, root: string): Promise<string> {
  const real = await realpath(path).catch((error) => {
    throw faultOf(error, 'The folder')
  })
  if (!isBelow(real, root)) throw new SourceError('denied', 'The folder leads out of the source.')
  return real
}

const isBelow = (path: string, folder: string) =>
  path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep)

interface Walk {
  root: string
  dataDir: string
  signal: AbortSignal
}

/** Depth first; holds one path per folder that is still to come. */
async function* walk(walk: Walk, start: string): AsyncGenerator<Listed> {
  const waiting = [{ path: start, depth: 0 }]
  for (let folder = waiting.pop(); folder; folder = waiting.pop()) {
    const nameOf = (path: string) => path.slice(start.length + (start === '/' ? 0 : 1))
    try {
      for await (const entry of await opendir(folder.path, { bufferSize: 512 })) {
        walk.signal.throwIfAborted()
        const path = join(folder.path, entry.name)
        if (path === walk.dataDir) continue
        if (!entry.isDirectory()) yield* listFile(walk, path, nameOf(path))
        else if (folder.depth < depthMax) waiting.push({ path, depth: folder.depth + 1 })
        else yield { name: nameOf(path), skipped: `is more than ${depthMax} folders deep`, incomplete: true }
      }
    } catch (error) {
      if (walk.signal.aborted || folder.depth === 0) throw faultOf(error, 'The folder')
      yield { name: nameOf(folder.path), skipped: faultOf(error, 'The folder').message, incomplete: true }
    }
  }
}

async function* listFile({ root }: Walk, path: string, name: string): AsyncGenerator<Listed> {
  try {
    const real = await realpath(path)
    if (!isBelow(real, root))
      return yield { name, skipped: 'is a link that leads out of the source', incomplete: false }
    const found = await stat(path, { bigint: true })
    if (found.isDirectory()) yield { name, skipped: 'is a link to a folder', incomplete: false }
    else if (!found.isFile()) yield { name, skipped: 'is not a file', incomplete: false }
    else
      yield {
        key: path.slice(root.length + (root === '/' ? 0 : 1)),
        name,
        size: Number(found.size),
        version: versionOf(found),
      }
  } catch (error) {
    yield { name, skipped: faultOf(error, 'The file').message, incomplete: false }
  }
}

/** What was opened is asked where it really is: no link put there meanwhile leads out. @source proc_pid_fd(5) */
async function openBelow(root: string, key: string, { dataDir }: SourceSettings): Promise<FileHandle> {
  const file = await open(join(root, key), constants.O_RDONLY | constants.O_NONBLOCK).catch((error) => {
    throw faultOf(error, 'The file')
  })
  const real = await realpath(`/proc/self/fd/${file.fd}`).catch(() => '')
  if (isBelow(real, root) && !isBelow(real, await realpath(dataDir).catch(() => dataDir))) return file
  await file.close()
  throw new SourceError('denied', 'The file is a link that leads out of the source.')
}

/** The time of the change of the inode moves even where somebody set the other time back. */
const versionOf = (file: { size: bigint; mtimeNs: bigint; ctimeNs: bigint }) =>
  `${file.size}-${file.mtimeNs}-${file.ctimeNs}`

async function versionOfFile(file: FileHandle): Promise<{ size: number; version: string }> {
  const found = await file.stat({ bigint: true })
  if (!found.isFile()) throw new SourceError('invalid', 'It is not a file.')
  return { size: Number(found.size), version: versionOf(found) }
}

/** Whoever writes while we read makes the read void. Nothing is open until somebody reads. */
async function* steadyContent(openFile: () => Promise<FileHandle>, version: string): AsyncGenerator<Uint8Array> {
  const file = await openFile()
  const requireSame = async () => {
    if ((await versionOfFile(file)).version !== version)
      throw new SourceError('changed', 'The file was changed while it was read.')
  }
  try {
    await requireSame()
    for (;;) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(readBytes), 0, readBytes, null)
      if (bytesRead === 0) break
      yield buffer.subarray(0, bytesRead)
    }
    await requireSame()
  } finally {
    await file.close()
  }
}

function faultOf(error: unknown, what: string): SourceError {
  if (error instanceof SourceError) return error
  const { code } = error as NodeJS.ErrnoException
  if (code === 'ENOENT' || code === 'ENOTDIR') return new SourceError('missing', `${what} is not there.`, error)
  if (code === 'EACCES' || code === 'EPERM') return new SourceError('denied', `${what} may not be read.`, error)
  return new SourceError('unreachable', `${what} could not be read (${code ?? 'unknown'}).`, error)
}
