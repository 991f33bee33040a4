import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { appendFiles } from '../../platform/blobs/append-file.ts'
import type { Services } from '../../platform/context.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { importFolder, removeImportFiles } from './import-files.ts'
import { listIdleImports, liveImportsAmong, updateLiveImport } from './imports.store.ts'
import {
  countUnreferencedBlobs,
  deleteEmptyRepositories,
  expireUploads,
  liveUploadsAmong,
  type Swept,
  unlinkUnreferencedBlobs,
} from './sweep.store.ts'
import { uploadFolder } from './upload-files.ts'

/** How long an upload may rest, and how long a blob may wait for its manifest. @source contract B9.9 */
export const restMs = 24 * 3600_000
/** A file appears a moment before its row does; one this old without a row has none. */
const orphanMs = 3600_000
const batchSize = 500

const before = (services: Services, ms: number) => new Date(services.clock.now().getTime() - ms)
const system = <T>(services: Services, work: Parameters<typeof transaction<T>>[2]) =>
  transaction(services.db, 'system', work)

export interface SweepRequest {
  /** Null for all tenants and the reserved namespace. */
  tenantId: string | null
  /** Only counts what would go. */
  dryRun: boolean
  /** Milliseconds since a push last relied on a blob; younger ones stay. A day when absent. */
  minimumAgeMs?: number
}

/** Unlinks blobs that no manifest names, while pushes go on. */
export async function sweepBlobs(services: Services, request: SweepRequest): Promise<Swept> {
  const scope = { tenantId: request.tenantId, before: before(services, request.minimumAgeMs ?? restMs) }
  if (request.dryRun) return system(services, (tx) => countUnreferencedBlobs(tx, scope))
  const total: Swept = { blobs: 0, bytes: 0 }
  for (;;) {
    const gone = await system(services, (tx) => unlinkUnreferencedBlobs(tx, scope, batchSize))
    if (gone.blobs === 0) return total
    total.blobs += gone.blobs
    total.bytes += gone.bytes
  }
}

/** Ends uploads and imports that nobody goes on with. */
export async function expireSessions(services: Services): Promise<number> {
  const since = before(services, restMs)
  const files = appendFiles()
  const uploads = await system(services, (tx) => expireUploads(tx, since))
  for (const id of uploads) await files.remove(join(uploadFolder(services.config), id))
  const imports = await system(services, async (tx) => {
    const idle = await listIdleImports(tx, since)
    const error = { code: 'expired', message: 'Nothing arrived for a day; send the archive again.' }
    for (const { id } of idle) await updateLiveImport(tx, id, { status: 'FAILED', error })
    return idle
  })
  for (const { id } of imports) await removeImportFiles(services.config, id)
  await system(services, (tx) => deleteEmptyRepositories(tx, since))
  return uploads.length + imports.length
}

/** Removes files whose upload or import is gone: deleted with its repository or tenant, or lost in a crash. */
export async function removeOrphans(services: Services): Promise<number> {
  const { config } = services
  const uploads = await oldFiles(services, uploadFolder(config))
  const liveUploads = await system(services, (tx) => liveUploadsAmong(tx, uploads))
  const files = appendFiles()
  const orphans = uploads.filter((id) => !liveUploads.has(id))
  for (const id of orphans) await files.remove(join(uploadFolder(config), id))
  const imports = [...new Set((await oldFiles(services, importFolder(config))).map((name) => name.split('.', 1)[0]!))]
  const liveImports = await system(services, (tx) => liveImportsAmong(tx, imports))
  const lost = imports.filter((id) => !liveImports.has(id))
  for (const id of lost) await removeImportFiles(config, id)
  return orphans.length + lost.length
}

const uuidStart = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/

async function oldFiles(services: Services, folder: string): Promise<string[]> {
  const since = before(services, orphanMs).getTime()
  const names = (await readdir(folder).catch(() => [])).filter((name) => uuidStart.test(name))
  const old: string[] = []
  for (const name of names) {
    const info = await stat(join(folder, name)).catch(() => null)
    if (info && info.mtimeMs < since) old.push(name)
  }
  return old
}
