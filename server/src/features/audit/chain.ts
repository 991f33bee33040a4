import { createHash } from 'node:crypto'
import type { Ctx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { read, transaction } from '../../platform/transaction.ts'
import {
  countUnsealed,
  dropEmptyCounts,
  dropOldLinks,
  type ErasureReason,
  type ErasureScope,
  eraseSealed,
  type Link,
  listLinks,
  listUnsealed,
  lockHead,
  sealRows,
} from './chain.store.ts'

const batchRows = 5000
const start = Buffer.alloc(32)
const faultsMax = 20

const linkHash = (before: Buffer, contentHash: Buffer): Buffer =>
  createHash('sha256').update(before).update(contentHash).digest()

/**
 * Gives every committed entry its place in the chain; returns how many, and the hash at the end. Writers never wait
 * for it: they only insert. @source ADR 0010
 */
export async function sealAudit(ctx: Ctx, signal?: AbortSignal): Promise<{ sealed: number; head: string | null }> {
  // What was just sealed lies dead in the index before this moment; without it each batch would walk over it again.
  let from = new Date(0)
  for (let sealed = 0; ; ) {
    signal?.throwIfAborted()
    const batch = await transaction(ctx, (tx) => sealBatch(tx, from))
    sealed += batch.count
    if (batch.count < batchRows) return { sealed, head: batch.hash?.toString('hex') ?? null }
    from = batch.last!
  }
}

async function sealBatch(tx: Tx, from: Date): Promise<{ count: number; hash: Buffer | null; last: Date | undefined }> {
  let { seq, hash } = await lockHead(tx)
  const rows = await listUnsealed(tx, from, batchRows)
  const links = rows.map(({ id, contentHash }) => {
    seq += 1
    hash = linkHash(hash ?? start, contentHash)
    return { id, seq, hash }
  })
  if (links.length) await sealRows(tx, links)
  return { count: links.length, hash, last: rows.at(-1)?.at }
}

/** Removes sealed entries in small transactions; the chain keeps their links. Returns how many. */
export async function eraseAudit(
  ctx: Ctx,
  scope: ErasureScope,
  reason: ErasureReason,
  signal?: AbortSignal,
): Promise<number> {
  for (let erased = 0; ; ) {
    signal?.throwIfAborted()
    const count = await transaction(ctx, (tx) => eraseSealed(tx, scope, reason, batchRows))
    erased += count
    if (count < batchRows) {
      if (erased) await transaction(ctx, dropOldLinks)
      if (erased) await transaction(ctx, dropEmptyCounts)
      return erased
    }
  }
}

export interface ChainReport {
  /** Entries whose content was checked. */
  checked: number
  /** Entries that retention or a tenant's deletion removed, of which the links are left. */
  erased: number
  /** Entries written since the last sealing. */
  unsealed: number
  lastSeq: number
  /** Hash at the end of the chain, hexadecimal: whoever noted an earlier one can compare. */
  head: string | null
  faults: { seq: number; reason: string }[]
  /** Whether the chain leads through the hash that was asked for; null when none was. */
  witnessed: boolean | null
}

/**
 * Follows the chain from its first link to its last. Reads in pieces; nothing is held. A witness is a hash of the chain
 * that was noted elsewhere: who rewrites the whole chain can't make it lead through that again.
 */
export async function verifyAudit(ctx: Ctx, witness?: string): Promise<ChainReport> {
  const report: ChainReport = {
    checked: 0,
    erased: 0,
    unsealed: 0,
    lastSeq: 0,
    head: null,
    faults: [],
    witnessed: witness ? false : null,
  }
  let before: Link | null = null
  for (;;) {
    const links = await read(ctx, (tx) => listLinks(tx, before?.seq ?? 0, batchRows))
    for (const link of links) {
      const reason = faultOf(before, link)
      if (reason && report.faults.length < faultsMax) report.faults.push({ seq: link.seq, reason })
      report[link.erased ? 'erased' : 'checked'] += 1
      if (witness && link.hash.toString('hex') === witness) report.witnessed = true
      before = link
    }
    if (links.length < batchRows) break
  }
  const end = before as Link | null
  report.lastSeq = end?.seq ?? 0
  report.head = end?.hash.toString('hex') ?? null
  report.unsealed = await read(ctx, countUnsealed)
  return report
}

function faultOf(before: Link | null, link: Link): string | null {
  // Whatever came before the first link that is left was erased with its links; the first one is the anchor.
  if (!before && link.seq > 1) return link.erased ? null : 'entries before it are missing'
  if (before && link.seq !== before.seq + 1) return `${link.seq - before.seq - 1} entries before it are missing`
  if (!linkHash(before?.hash ?? start, link.contentHash).equals(link.hash)) return 'it was changed'
  return null
}
