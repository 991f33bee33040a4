import type { Services } from '../../platform/context.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { addPulls } from './repositories.store.ts'
import { markTokensUsed } from './tokens.store.ts'

/** Counts what would otherwise be a write per read: pulls, and when a token was last used. */
export interface UsageCounters {
  pulled(repositoryId: string): void
  used(tokenId: string): void
  /** Writes what is left. */
  close(): Promise<void>
}

const flushMs = 2000
/** A token in steady use is noted this often. */
const usedEveryMs = 60_000

/** Written every two seconds; what a crash loses is that much. */
export function usageCounters(services: Services): UsageCounters {
  let pulls = new Map<string, number>()
  let tokens = new Set<string>()
  const noted = new Map<string, number>()

  const flush = async () => {
    if (pulls.size === 0 && tokens.size === 0) return
    const [pulled, used] = [pulls, [...tokens]]
    pulls = new Map()
    tokens = new Set()
    await transaction(services.db, 'system', async (tx) => {
      if (pulled.size > 0) await addPulls(tx, pulled)
      if (used.length > 0) await markTokensUsed(tx, used)
    }).catch((error) => services.log.warn({ err: error }, 'registry: pulls could not be counted'))
  }
  const timer = setInterval(() => void flush(), flushMs).unref()
  return {
    pulled: (repositoryId) => void pulls.set(repositoryId, (pulls.get(repositoryId) ?? 0) + 1),
    used(tokenId) {
      const now = Date.now()
      if (now - (noted.get(tokenId) ?? 0) < usedEveryMs) return
      if (noted.size > 10_000) noted.clear()
      noted.set(tokenId, now)
      tokens.add(tokenId)
    },
    async close() {
      clearInterval(timer)
      await flush()
    },
  }
}
