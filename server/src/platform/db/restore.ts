import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { chmod, cp, lchown, mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, posix } from 'node:path'
import { Readable } from 'node:stream'
import { json } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { extract, type Header } from 'tar-stream'
import { type BackupFile, type BackupManifest, manifestName } from './backup-archive.ts'
import { databaseFolderName } from './database.ts'
import { locateEmbeddedPostgres } from './embedded-postgres.ts'

type Entry = AsyncIterable<Buffer> & { header: Header; resume(): unknown }

export interface RestoreOptions {
  /** Data folder to fill: absent or empty. */
  dataFolder: string
  /** The file that `backup()` wrote. */
  source: string
}

/**
 * Fills an empty data folder from a backup. Nothing is in place before every file was checked against the manifest.
 * @throws for a folder with anything in it, and for an archive that is incomplete or was changed
 */
export async function restore({ dataFolder, source }: RestoreOptions): Promise<BackupManifest> {
  await stat(source)
  await mkdir(dataFolder, { recursive: true, mode: 0o700 })
  if ((await readdir(dataFolder)).length > 0) throw new Error(`${dataFolder} is not empty; nothing was restored`)
  // Inside the data folder, because that may be a mount of its own.
  const staging = join(dataFolder, '.restoring')
  try {
    await mkdir(staging, { mode: 0o700 })
    const manifest = await extractVerified(source, staging)
    // The disk has everything before anything stands in its place; one call for all is much faster than one per file.
    await promisify(execFile)('sync', ['-f', staging])
    await putInPlace(staging, dataFolder)
    return manifest
  } finally {
    await rm(staging, { recursive: true, force: true })
  }
}

async function extractVerified(source: string, staging: string): Promise<BackupManifest> {
  const found = new Map<string, BackupFile>()
  let manifest: BackupManifest | undefined
  const entries = extract()
  const reading = pipeline(createReadStream(source), entries)
  // The loop below meets the same error.
  reading.catch(() => {})
  for await (const entry of entries as AsyncIterable<unknown> as AsyncIterable<Entry>) {
    const { name, type } = entry.header
    if (manifest) throw new Error(`the backup goes on after its manifest, with ${name}`)
    if (name === manifestName) manifest = (await json(Readable.from(entry))) as BackupManifest
    else if (type === 'directory') await extractFolder(entry, staging)
    else found.set(name, await extractFile(entry, staging))
  }
  await reading
  if (!manifest) throw new Error('the backup is incomplete: it has no manifest')
  compare(manifest, found)
  return manifest
}

/** Where an entry goes; refuses names that would leave the folder. */
function placeOf({ header: { name } }: Entry, staging: string): string {
  const path = posix.normalize(name)
  if (posix.isAbsolute(path) || path.startsWith('..')) throw new Error(`the backup holds a forbidden name, ${name}`)
  return join(staging, path)
}

async function extractFolder(entry: Entry, staging: string): Promise<void> {
  const path = placeOf(entry, staging)
  entry.resume()
  await mkdir(path, { recursive: true })
  await chmod(path, (entry.header.mode ?? 0o700) & 0o777)
}

async function extractFile(entry: Entry, staging: string): Promise<BackupFile> {
  const { name, type, mode = 0o600 } = entry.header
  if (type !== 'file') throw new Error(`the backup holds ${name}, a ${type}`)
  const path = placeOf(entry, staging)
  await mkdir(dirname(path), { recursive: true })
  const hash = createHash('sha256')
  let size = 0
  const tap = async function* (content: AsyncIterable<Buffer>) {
    for await (const chunk of content) {
      hash.update(chunk)
      size += chunk.length
      yield chunk
    }
  }
  await pipeline(entry, tap, createWriteStream(path, { flags: 'wx', mode: mode & 0o777 }))
  return { path: name, size, sha256: hash.digest('hex') }
}

function compare(manifest: BackupManifest, found: Map<string, BackupFile>): void {
  if (manifest.format !== 1) throw new Error(`the backup has format ${manifest.format}, which this release cannot read`)
  for (const { path, size, sha256 } of manifest.files) {
    const file = found.get(path)
    if (file?.size !== size || file.sha256 !== sha256)
      throw new Error(`the backup is damaged: ${path} is not as written`)
  }
  if (found.size !== manifest.files.length)
    throw new Error('the backup is damaged: it holds files its manifest does not')
}

/** The database last: before it is there, the folder does not pass for an instance. */
async function putInPlace(staging: string, dataFolder: string): Promise<void> {
  for (const name of await readdir(staging)) {
    if (name !== databaseFolderName) await rename(join(staging, name), join(dataFolder, name))
  }
  const { cluster, account } = await locateEmbeddedPostgres(join(dataFolder, databaseFolderName))
  const restored = join(staging, databaseFolderName, 'cluster')
  await chmod(restored, 0o700)
  if (account.owner) await changeOwner(restored, account.owner)
  await rename(restored, cluster).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EXDEV') throw error
    await cp(restored, cluster, { recursive: true })
    if (account.owner) await changeOwner(cluster, account.owner)
  })
}

async function changeOwner(path: string, owner: { uid: number; gid: number }): Promise<void> {
  await lchown(path, owner.uid, owner.gid)
  if (!(await stat(path)).isDirectory()) return
  for (const name of await readdir(path)) await changeOwner(join(path, name), owner)
}
