import type { StoredBlob } from '../../platform/blobs/blob-store.ts'
import type { Services } from '../../platform/context.ts'
import { mayDeleteBlobs } from '../../platform/db/backup-lock.ts'
import { type Tx, transaction } from '../../platform/db/transaction.ts'
import type { Feature } from '../../platform/feature.ts'
import { forgetContents, noteUnheld } from './content-sweep.store.ts'

export type HeldDigests = NonNullable<Feature['heldDigests']>

export interface ContentSweep {
  /** Only counts what would go. */
  dryRun: boolean
  /** Milliseconds since content was put or used last; younger content may belong to a row that is about to come. A day when absent. */
  restMs?: number
  /** Milliseconds that nothing must have referred to it, as sweeps saw it: longer than any transaction. An hour when absent. */
  unheldMs?: number
  signal?: AbortSignal
}

export interface SweptContents {
  /** Contents that went; in a dry run those that would. */
  removed: number
  removedBytes: number
  /** Contents that nothing refers to, and whose time has not come. */
  waiting: number
  /** A backup is running: nothing more may go now. */
  postponed: boolean
}

/**
 * Removes content that no feature holds. The same bytes may belong to many tenants and features, so all are asked.
 *
 * Two looks keep it from racing: content goes when it was neither put nor used for a day (the store makes sure of that
 * at the last moment) and when nothing referred to it an hour ago either, so that no transaction is still to come that
 * found it through a row since deleted. @source ADR 11
 */
export async function sweepContents(
  services: Services,
  holders: HeldDigests[],
  sweep: ContentSweep,
): Promise<SweptContents> {
  const total: SweptContents = { removed: 0, removedBytes: 0, waiting: 0, postponed: false }
  const now = services.clock.now().getTime()
  const restedSince = new Date(now - (sweep.restMs ?? 24 * 3600_000))
  const unheldSince = new Date(now - (sweep.unheldMs ?? 3600_000))
  for await (const batch of services.blobs.list()) {
    sweep.signal?.throwIfAborted()
    const rested = batch.filter(({ usedAt }) => usedAt < restedSince)
    const doomed = await transaction(services.db, 'system', async (tx) => {
      const unheld = await unheldAmong(tx, holders, rested)
      if (sweep.dryRun) return unheld
      if (!(await mayDeleteBlobs(tx))) return null
      return noteLook(tx, { batch, unheld, now: new Date(now), unheldSince })
    })
    if (!doomed) return { ...total, postponed: true }
    await remove(services, doomed, { ...sweep, restedSince }, total)
  }
  return total
}

async function unheldAmong(tx: Tx, holders: HeldDigests[], blobs: StoredBlob[]): Promise<Unheld[]> {
  let left = blobs
  for (const heldDigests of holders) {
    // Most are held by the first that are asked.
    if (left.length === 0) return []
    const held = new Set(
      await heldDigests(
        tx,
        left.map(({ digest }) => digest),
      ),
    )
    left = left.filter(({ digest }) => !held.has(digest))
  }
  return left.map((blob) => ({ ...blob, isDue: true }))
}

interface Unheld extends StoredBlob {
  /** An earlier look found the same. */
  isDue: boolean
}

async function noteLook(
  tx: Tx,
  look: { batch: StoredBlob[]; unheld: Unheld[]; now: Date; unheldSince: Date },
): Promise<Unheld[]> {
  const unheld = look.unheld.map(({ digest }) => digest)
  const known = new Set(unheld)
  const others = look.batch.map(({ digest }) => digest).filter((digest) => !known.has(digest))
  await forgetContents(tx, others)
  const due = new Set(await noteUnheld(tx, unheld, look.now, look.unheldSince))
  return look.unheld.map((blob) => ({ ...blob, isDue: due.has(blob.digest) }))
}

/** After the transaction: a file that is gone can't be rolled back. */
async function remove(
  services: Services,
  unheld: Unheld[],
  { dryRun, restedSince }: { dryRun: boolean; restedSince: Date },
  total: SweptContents,
): Promise<void> {
  const gone: string[] = []
  for (const { digest, size, isDue } of unheld) {
    if (!isDue) total.waiting++
    else if (dryRun || (await services.blobs.deleteUnused(digest, restedSince))) {
      total.removed++
      total.removedBytes += size
      gone.push(digest)
    }
  }
  if (!dryRun) await transaction(services.db, 'system', (tx) => forgetContents(tx, gone))
}
