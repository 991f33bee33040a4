import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Header, type Pack, pack } from 'tar-stream'

export const manifestName = 'manifest.json'

/** What the last entry of a backup says about all the others. */
export interface BackupManifest {
  format: 1
  createdAt: string
  /** Such as `18.4`. */
  postgresVersion: string
  files: BackupFile[]
}

export interface BackupFile {
  /** Relative to the data folder. */
  path: string
  size: number
  /** Hexadecimal. */
  sha256: string
}

export interface BackupArchive {
  /** Streams one file in; its length must be as declared. */
  addFile(header: { name: string; size: number; mode: number }, content: AsyncIterable<Uint8Array>): Promise<void>
  addFolder(header: { name: string; mode: number }): void
  /** Writes the manifest and puts the archive in place. */
  finish(manifest: Omit<BackupManifest, 'files'>): Promise<BackupFile[]>
  discard(): Promise<void>
}

function addEntry(
  archive: Pack,
  header: Partial<Header> & { name: string },
  content: AsyncIterable<Uint8Array>,
): Promise<void> {
  return pipeline(Readable.from(content, { objectMode: false }), archive.entry(header))
}

/** Opens a tar file that appears under its name only when it is complete and on disk. */
export function createBackupArchive(path: string): BackupArchive {
  const archive = pack()
  const partial = `${path}.partial`
  const written = pipeline(archive, createWriteStream(partial, { mode: 0o600, flush: true }))
  // A full disk also fails the entry that is being written, which is where it is reported.
  written.catch(() => {})
  const files: BackupFile[] = []
  return {
    async addFile({ name, size, mode }, content) {
      const hash = createHash('sha256')
      await addEntry(archive, { name, size, mode, type: 'file' }, hashed(content, hash))
      files.push({ path: name, size, sha256: hash.digest('hex') })
    },
    addFolder({ name, mode }) {
      archive.entry({ name, mode, type: 'directory' })
    },
    async finish(head) {
      const manifest = Buffer.from(JSON.stringify({ ...head, files } satisfies BackupManifest))
      await addEntry(archive, { name: manifestName, size: manifest.length, mode: 0o600 }, Readable.from([manifest]))
      archive.finalize()
      await written
      await rename(partial, path)
      return files
    },
    async discard() {
      archive.destroy()
      await written.catch(() => {})
      await rm(partial, { force: true })
    },
  }
}

async function* hashed(content: AsyncIterable<Uint8Array>, hash: ReturnType<typeof createHash>) {
  for await (const chunk of content) {
    hash.update(chunk)
    yield chunk
  }
}
