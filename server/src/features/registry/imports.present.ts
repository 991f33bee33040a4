import type { ImportError, ImportRow } from './imports.store.ts'

/** Taking the archive is the first half of the way for the person who waits. */
function percentOf({ status, receivedBytes, sizeBytes, progress }: ImportRow): number {
  if (status === 'READY') return 100
  const fraction = 0.5 * (receivedBytes / sizeBytes) + 0.5 * progress
  return Math.min(99, Math.floor(fraction * 100))
}

export function importView(row: ImportRow) {
  const images = row.images as string[]
  return {
    id: row.id,
    status: row.status,
    phase: row.phase,
    progress: percentOf(row),
    received_bytes: row.receivedBytes,
    size_bytes: row.sizeBytes,
    chunk_size: row.chunkSize,
    repository: row.repository,
    tag: row.tag,
    filename: row.filename,
    image: images[0] ?? null,
    images,
    error: row.error as ImportError | null,
    created_by: row.createdBy,
    created_at: row.createdAt.toISOString(),
    ended_at: row.endedAt?.toISOString() ?? null,
  }
}
