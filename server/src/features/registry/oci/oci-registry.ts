import type { Services } from '../../../platform/context.ts'
import { readSmallBlob } from '../manifest-reader.ts'
import { type TokenAccess, tokenAccess } from '../token-access.ts'
import { openUploadFiles, type UploadFiles } from '../upload-files.ts'
import { type UsageCounters, usageCounters } from '../usage-counters.ts'

/** What the requests of one process share. */
export interface OciRegistry {
  services: Services
  tokens: TokenAccess
  counters: UsageCounters
  uploads: UploadFiles
  /** Bytes of a manifest; those asked for lately are at hand. */
  manifestBytes(contentDigest: string): Promise<Buffer>
  close(): Promise<void>
}

const cacheSizeBytes = 32 * 1024 * 1024

export async function openOciRegistry(services: Services): Promise<OciRegistry> {
  const tokens = tokenAccess(services)
  const counters = usageCounters(services)
  return {
    services,
    tokens,
    counters,
    uploads: await openUploadFiles(services.config),
    manifestBytes: cachedReader((digest) => readSmallBlob(services.blobs, digest)),
    async close() {
      tokens.close()
      await counters.close()
    },
  }
}

/** Keeps what was read last; content never changes under its digest, so nothing ever has to be forgotten but for room. */
function cachedReader(load: (digest: string) => Promise<Buffer>): (digest: string) => Promise<Buffer> {
  const known = new Map<string, Buffer>()
  let size = 0
  return async (digest) => {
    const cached = known.get(digest)
    if (cached) {
      // To the young end of the map's order.
      known.delete(digest)
      known.set(digest, cached)
      return cached
    }
    const bytes = await load(digest)
    if (!known.has(digest)) size += bytes.length
    known.set(digest, bytes)
    for (const [oldest, old] of known) {
      if (size <= cacheSizeBytes) break
      known.delete(oldest)
      size -= old.length
    }
    return bytes
  }
}
