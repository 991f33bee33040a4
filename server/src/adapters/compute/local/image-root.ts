import { randomUUID } from 'node:crypto'
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { extractTar } from '../../../platform/archives/tar-archive.ts'
import { hexOfDigest } from '../../../platform/blobs/digest.ts'
import type { ImageRunConfig, WorkImage } from '../compute.ts'

export interface ImageRequest extends WorkImage {
  /** Holds a folder per image; private to this driver. */
  folder: string
  /** Largest length of all layers unpacked, in bytes; 64 GiB unless told. */
  maxBytes?: number
  /** Ends the unpacking, also for callers that joined it. */
  signal?: AbortSignal
}

/** How to run an image without a container: everything absolute, on this machine. */
export interface ImageRoot {
  root: string
  command: string[]
  env: Record<string, string>
  workingFolder: string
}

const unpacking = new Map<string, Promise<void>>()
const abandonedMs = 24 * 3600_000
const partialPrefix = '.partial-'

/**
 * Unpacks an image once and says how to run it on this machine, where it sees the machine's own files: arguments and
 * folder variables that are absolute paths of the image are led into its root, all else is passed as it is.
 */
export async function materialiseImage(request: ImageRequest): Promise<ImageRoot> {
  const root = join(request.folder, hexOfDigest(request.digest))
  // Callers in this process share the work; another process does its own, and whoever is first wins.
  const work = unpacking.get(root) ?? unpack(request, root).finally(() => unpacking.delete(root))
  unpacking.set(root, work)
  await work
  return runOf(root, request.config.config ?? {})
}

async function unpack(request: ImageRequest, root: string): Promise<void> {
  if (await exists(root)) return
  await mkdir(request.folder, { recursive: true, mode: 0o700 })
  await removeAbandoned(request.folder)
  const partial = join(request.folder, partialPrefix + randomUUID())
  await mkdir(partial, { mode: 0o700 })
  try {
    let left = request.maxBytes ?? 64 * 1024 ** 3
    for (const { digest } of request.layers) {
      const onEntry = (_: string, size: number) => {
        left -= size
      }
      await extractTar(await request.open(digest), partial, { totalBytes: left }, { signal: request.signal, onEntry })
    }
    await rename(partial, root).catch(async (error) => {
      if (!(await exists(root))) throw error
    })
  } finally {
    await rm(partial, { recursive: true, force: true })
  }
}

/** Removes unpacked images other than these. */
export async function removeImages(folder: string, kept: ReadonlySet<string>): Promise<void> {
  const names = new Set([...kept].map(hexOfDigest))
  const present = await readdir(folder).catch(() => [])
  for (const name of present.filter((name) => /^[0-9a-f]{64}$/.test(name) && !names.has(name))) {
    // Out of sight first: who unpacks it again meanwhile gets a folder of its own.
    const removed = join(folder, partialPrefix + randomUUID())
    await rename(join(folder, name), removed).catch(() => undefined)
    await rm(removed, { recursive: true, force: true })
  }
}

async function removeAbandoned(folder: string): Promise<void> {
  for (const name of (await readdir(folder)).filter((name) => name.startsWith(partialPrefix))) {
    const path = join(folder, name)
    const age = Date.now() - ((await stat(path).catch(() => null))?.mtimeMs ?? Date.now())
    if (age > abandonedMs) await rm(path, { recursive: true, force: true })
  }
}

async function runOf(root: string, config: ImageRunConfig): Promise<ImageRoot> {
  const env: Record<string, string> = {}
  for (const entry of config.Env ?? []) {
    const [, name, value] = /^([^=]+)=(.*)$/s.exec(entry) ?? []
    if (name !== undefined) env[name] = await ledVariable(root, name, value!)
  }
  const [program, ...rest] = [...(config.Entrypoint ?? []), ...(config.Cmd ?? [])]
  if (program === undefined) throw new Error('the image names no program to run')
  const workingFolder = inRoot(root, config.WorkingDir || '/')
  await mkdir(workingFolder, { recursive: true })
  const command = [await findProgram(root, program, config.Env ?? [])]
  for (const argument of rest) command.push(await led(root, argument))
  return { root, command, env, workingFolder }
}

/** Normalised as an absolute path first, so that no `..` climbs above the root. */
const inRoot = (root: string, path: string) => join(root, posix.normalize(posix.join('/', path)))

async function led(root: string, value: string): Promise<string> {
  return value.startsWith('/') && value !== '/' && (await exists(inRoot(root, value))) ? inRoot(root, value) : value
}

/** Variables that by their name hold folders and files; in PATH the machine's own programs stay behind the image's. */
async function ledVariable(root: string, name: string, value: string): Promise<string> {
  if (!/(PATH|DIR|HOME|FOLDER|FILE|ROOT)$/.test(name)) return value
  const parts = await Promise.all(value.split(':').map((part) => led(root, part)))
  return name === 'PATH' ? [...new Set([...parts, ...value.split(':')])].join(':') : parts.join(':')
}

async function findProgram(root: string, program: string, env: string[]): Promise<string> {
  if (program.startsWith('/')) return led(root, program)
  const path = env.find((entry) => entry.startsWith('PATH='))?.slice(5) ?? '/usr/local/bin:/usr/bin:/bin'
  for (const folder of program.includes('/') ? [] : path.split(':')) {
    const candidate = inRoot(root, posix.join(folder, program))
    if (await exists(candidate)) return candidate
  }
  throw new Error(`the image does not hold the program it names: ${program}`)
}

const exists = async (path: string) => (await stat(path).catch(() => null)) !== null
