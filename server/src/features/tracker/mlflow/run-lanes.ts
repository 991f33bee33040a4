import { coalescing } from '../../../platform/coalescing.ts'
import type { TenantCtx } from '../../../platform/context.ts'
import type { Database } from '../../../platform/db/database.ts'
import { type Tx, transaction } from '../../../platform/db/transaction.ts'
import {
  type LogOutcome,
  logToRuns,
  type OpenedRun,
  openRuns,
  type RunLog,
  type RunOpening,
} from '../run-logging.store.ts'

/** What goes into one transaction, so that it stays short. */
const requestsMost = 100
const entriesMost = 5000
/** One is worked on while the other waits for the disk, and while a row that somebody holds keeps a batch waiting. */
const batchesAtOnce = 2

/** Transactions of one tenant that take several requests each. */
interface Lanes {
  log(request: RunLog): Promise<LogOutcome>
  open(run: RunOpening): Promise<OpenedRun>
}

const lanesOf = new WeakMap<Database, Map<string, Lanes>>()

/** Logs to a run, in one transaction with what others log at the same time. It is on disk when this returns. */
export const logToRun = (ctx: TenantCtx, request: RunLog): Promise<LogOutcome> => lanes(ctx).log(request)

/** Opens a run, in one transaction with those that others open at the same time. */
export const openRun = (ctx: TenantCtx, run: RunOpening): Promise<OpenedRun> => lanes(ctx).open(run)

function lanes({ db, tenant }: TenantCtx): Lanes {
  const ofDatabase = lanesOf.get(db) ?? new Map<string, Lanes>()
  lanesOf.set(db, ofDatabase)
  const known = ofDatabase.get(tenant.id) ?? makeLanes(db, tenant.id)
  ofDatabase.set(tenant.id, known)
  return known
}

function makeLanes(db: Database, tenantId: string): Lanes {
  const work =
    <I, O>(together: (tx: Tx, tenantId: string, items: I[]) => Promise<O[]>) =>
    (items: I[]) =>
      transaction(db, { tenantId }, (tx) => together(tx, tenantId, items))
  const rest = { isOfOne: isFaultOfData, lanes: batchesAtOnce }
  return {
    log: coalescing({ ...rest, work: work(logToRuns), fits: goTogether }),
    open: coalescing({ ...rest, work: work(openRuns), fits: (batch) => batch.length < requestsMost }),
  }
}

/** Parameters of one run are taken one request after the other: what the first one sets, the next one must not change. */
function goTogether(batch: RunLog[], { runId, metrics, params }: RunLog): boolean {
  if (batch.length >= requestsMost) return false
  if (batch.reduce((sum, request) => sum + request.metrics.length, metrics.length) > entriesMost) return false
  return params.length === 0 || !batch.some((request) => request.runId === runId && request.params.length > 0)
}

/** A value that cannot be stored, or a row that is gone: the classes 22 and 23 of SQLSTATE. */
const isFaultOfData = (error: unknown): boolean => /^2[23]/.test(String((error as { code?: unknown }).code))
