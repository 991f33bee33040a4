import { type FileHandle, lstat, open, readdir, realpath } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import pg from 'pg'
import { extract } from 'tar-stream'
import { type BackupArchive, createBackupArchive } from './backup-archive.ts'
import { holdBlobs } from './backup-lock.ts'
import { recordBackup } from './backup-record.ts'
import { streamBaseBackup } from './base-backup.ts'
import { type DatabaseUrls, databaseFolderName, embeddedName, embeddedUrls } from './database.ts'
import { findEmbeddedPostgres, startEmbeddedPostgres } from './embedded-postgres.ts'
import type { DatabaseLog } from './embedded-server.ts'

const chunkSizeBytes = 262_144

export interface BackupOptions {
  /** The data folder of an instance with the embedded database, running or not. */
  dataFolder: string
  /** Path of the archive; a folder gets a file named after the present time. */
  target: string
  /** Entries of the data folder that can be made again and stay out, such as an installed trainer. */
  exclude?: string[]
  log: DatabaseLog
  /** Told of what is left out. */
  report: (line: string) => void
}

export interface BackupResult {
  path: string
  fileCount: number
  sizeBytes: number
}

/**
 * Writes one tar file with everything of an instance: database, blobs, secrets. The instance may go on working.
 *
 * The database comes first and the files after it. A blob is on disk before the row that refers to it is committed, so
 * every blob that the copied rows name is there when the files are read; that none of them is deleted in between is
 * what `holdBlobs` is for. Blobs that came later are copied without need and do no harm.
 */
export async function backup(options: BackupOptions): Promise<BackupResult> {
  const dataFolder = await realpath(options.dataFolder)
  const path = await targetPath(options.target)
  if (!relative(dataFolder, path).startsWith('..')) throw new Error('The backup must lie outside the data folder')
  const database = await databaseOf(dataFolder, options.log)
  const archive = createBackupArchive(path)
  try {
    const { ownerUrl } = database.urls
    const takenAt = new Date()
    const postgresVersion = await holdingBlobs(ownerUrl, async () => {
      await copyDatabase(ownerUrl, archive)
      await copyFiles(dataFolder, archive, options)
    })
    const files = await archive.finish({ format: 1, createdAt: takenAt.toISOString(), postgresVersion })
    const sizeBytes = (await lstat(path)).size
    // The archive is whole; that nobody wrote it down does not undo it.
    await recordBackup(ownerUrl, { takenAt, kind: 'archive', sizeBytes }).catch((error: Error) =>
      options.report(`the backup is whole but not recorded: ${error.message}`),
    )
    return { path, fileCount: files.length, sizeBytes }
  } catch (error) {
    await archive.discard()
    throw error
  } finally {
    await database.release()
  }
}

async function targetPath(target: string): Promise<string> {
  const stat = await lstat(target).catch(() => null)
  if (stat?.isDirectory()) {
    const name = `platform-mlops-${new Date().toISOString().slice(0, 19).replaceAll(':', '')}Z.tar`
    return join(await realpath(target), name)
  }
  if (stat) throw new Error(`${target} exists already`)
  return join(await realpath(dirname(target)), basename(target))
}

/** The server that runs on the data folder, or one of our own for the time of the backup. */
async function databaseOf(dataFolder: string, log: DatabaseLog) {
  const folder = join(dataFolder, databaseFolderName)
  if (!(await lstat(folder).catch(() => null))) throw new Error(`${dataFolder} holds no embedded database`)
  const running = await findEmbeddedPostgres(folder)
  if (running) return { urls: embeddedUrls(running, embeddedName), release: async () => {} }
  const own = await startEmbeddedPostgres({ folder, log })
  return { urls: embeddedUrls(own, embeddedName) as DatabaseUrls, release: own.stop }
}

/** Runs `work` while no blob is deleted; answers the version of the server. */
async function holdingBlobs(ownerUrl: string, work: () => Promise<void>): Promise<string> {
  const client = new pg.Client({ connectionString: ownerUrl, keepAlive: true })
  client.on('error', () => {})
  await client.connect()
  try {
    await holdBlobs(client)
    await work()
    // Fails when the session, and with it the lock, was lost on the way.
    const { rows } = await client.query('show server_version')
    return rows[0].server_version
  } finally {
    await client.end()
  }
}

async function copyDatabase(ownerUrl: string, archive: BackupArchive): Promise<void> {
  const client = new pg.Client({ connectionString: ownerUrl, replication: 'true' } as pg.ClientConfig)
  client.on('error', () => {})
  await client.connect()
  const entries = extract()
  const stream = streamBaseBackup(client)
  stream.on('error', (error) => entries.destroy(error))
  stream.pipe(entries)
  try {
    for await (const entry of entries) {
      const { name, type, mode = 0o600, size = 0 } = entry.header
      const path = join(databaseFolderName, 'cluster', name)
      if (type === 'directory') {
        archive.addFolder({ name: path, mode })
        entry.resume()
      } else if (type === 'file') await archive.addFile({ name: path, size, mode }, entry as AsyncIterable<Buffer>)
      else throw new Error(`the database holds ${name}, a ${type}, which a backup cannot hold`)
    }
  } finally {
    await client.end()
  }
}

async function copyFiles(dataFolder: string, archive: BackupArchive, options: BackupOptions): Promise<void> {
  const left = new Set([databaseFolderName, ...(options.exclude ?? [])])
  for (const name of (await readdir(dataFolder)).sort()) {
    if (left.has(name)) continue
    await copyTree(dataFolder, name, archive, options.report)
  }
}

async function copyTree(root: string, path: string, archive: BackupArchive, report: BackupOptions['report']) {
  const absolute = join(root, path)
  const stat = await lstat(absolute).catch(ignoreMissing)
  if (!stat) return
  if (stat.isDirectory()) {
    archive.addFolder({ name: path, mode: stat.mode & 0o777 })
    const names = (await readdir(absolute).catch(ignoreMissing)) ?? []
    for (const name of names.sort()) await copyTree(root, join(path, name), archive, report)
  } else if (stat.isFile()) await copyFile(absolute, path, archive)
  else report(`left out ${path}: neither a file nor a folder`)
}

/** Temporary files come and go while an instance works; one that is gone is none of the backup's. */
function ignoreMissing(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null
  throw error
}

async function copyFile(absolute: string, name: string, archive: BackupArchive): Promise<void> {
  const file = await open(absolute).catch(ignoreMissing)
  if (!file) return
  try {
    const { size, mode } = await file.stat()
    await archive.addFile({ name, size, mode: mode & 0o777 }, exactly(file, size))
  } finally {
    await file.close()
  }
}

/** The bytes there were when the file was opened: a log may grow meanwhile; what it lost is filled with zeros. */
async function* exactly(file: FileHandle, size: number): AsyncGenerator<Uint8Array> {
  for (let position = 0; position < size; ) {
    const chunk = new Uint8Array(Math.min(size - position, chunkSizeBytes))
    const { bytesRead } = await file.read(chunk, 0, chunk.length, position)
    const ended = bytesRead === 0
    yield ended ? chunk : chunk.subarray(0, bytesRead)
    position += ended ? chunk.length : bytesRead
  }
}
