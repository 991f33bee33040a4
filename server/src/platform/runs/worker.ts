import type { Client } from 'pg'
import type { Actor, Services, SystemCtx, TenantCtx } from '../context.ts'
import { openSteadyConnection } from '../db/steady-connection.ts'
import { transaction } from '../db/transaction.ts'
import { permissionsOf } from '../http/permissions.ts'
import { RunCanceled, type RunKind, type Schedule, WorkerStopping } from './define-run.ts'
import { executeRun } from './run-execution.ts'
import { type ClaimedRun, claimRun, workerLock } from './run-store.ts'
import { wakeChannel } from './runs.ts'
import { startDueSchedules } from './scheduler.ts'

export interface WorkerOptions {
  services: Services
  kinds: RunKind[]
  schedules?: Schedule[]
  /** Slow look behind the notifications, in milliseconds. */
  pollMs?: number
  /** Most runs of all kinds at once in this process. */
  maxRuns?: number
}

export interface Worker {
  /** Takes no more work, gives back what is under way, and resolves when nothing runs here any more. */
  stop(): Promise<void>
}

/**
 * Runs what is queued, here and now, until it is stopped. The worker proves that it lives by a lock on a connection
 * of its own: when either dies, other workers (or this one, after it reconnected) go on with its runs.
 * @source house.md §5
 */
export async function startWorker(options: WorkerOptions): Promise<Worker> {
  const { services } = options
  const kinds = new Map(options.kinds.map((kind) => [kind.kind, kind]))
  const live = new Map<string, { kind: string; abort: AbortController; done: Promise<void> }>()
  let owner: number | null = null
  let stopping = false
  let looking: Promise<void> | null = null
  let lookAgain = false

  const look = (): void => {
    if (looking !== null) {
      lookAgain = true
      return
    }
    looking = takeAll()
      .catch((error) => services.log.warn({ err: error }, 'worker: looking for runs failed'))
      .finally(() => {
        looking = null
        if (lookAgain && !stopping) {
          lookAgain = false
          look()
        }
      })
  }

  async function takeAll(): Promise<void> {
    await startDueSchedules(services, kinds, options.schedules ?? [])
    while (!stopping && owner !== null && live.size < (options.maxRuns ?? 32)) {
      const worker = owner
      const run = await transaction(services.db, 'system', (tx) =>
        claimRun(tx, { worker, live: [...live.keys()], kinds: [...kinds.keys()], full: fullKinds() }),
      )
      if (!run) return
      begin(run, worker)
    }
  }

  /** Kinds that this process has no room for. */
  function fullKinds(): string[] {
    const running = (kind: string) => [...live.values()].filter((run) => run.kind === kind).length
    return options.kinds
      .filter(({ kind, maxConcurrent }) => running(kind) >= (maxConcurrent ?? Infinity))
      .map(({ kind }) => kind)
  }

  function begin(run: ClaimedRun, owner: number): void {
    const abort = new AbortController()
    const kind = kinds.get(run.kind)!
    if (run.cancelRequestedAt) abort.abort(new RunCanceled(run.cancelReason ?? 'canceled'))
    const done = contextOf(services, run)
      .then((ctx) =>
        executeRun({
          run,
          kind,
          owner,
          ctx,
          signal: abort.signal,
          transact: (work) => transaction(services.db, ctx.scope, work),
        }),
      )
      .catch((error) => services.log.error({ err: error, run: run.id }, 'worker: a run could not be started'))
      .finally(() => {
        live.delete(run.id)
        if (!stopping) look()
      })
    live.set(run.id, { kind: run.kind, abort, done })
  }

  async function cancel(runId: string): Promise<void> {
    const run = live.get(runId)
    if (!run) return
    const row = await transaction(services.db, 'system', (tx) =>
      tx.selectFrom('runs').select(['cancelReason', 'cancelRequestedAt']).where('id', '=', runId).executeTakeFirst(),
    )
    if (row?.cancelRequestedAt) run.abort.abort(new RunCanceled(row.cancelReason ?? 'canceled'))
  }

  async function takeUpDuty(client: Client): Promise<void> {
    const { rows } = await client.query(
      `with me as (select nextval('worker_numbers')::int as number)
       select number, pg_advisory_lock(${workerLock}, number) from me`,
    )
    client.on('notification', ({ payload }) => {
      const canceled = payload?.startsWith('cancel ') ? payload.slice(7) : null
      if (canceled) void cancel(canceled).catch((error) => services.log.warn({ err: error }, 'worker: cancel failed'))
      // A canceled run that nobody holds must still be ended.
      look()
    })
    await client.query(`listen ${wakeChannel}`)
    owner = rows[0].number
    look()
  }

  const connection = await openSteadyConnection(services.db, {
    name: 'worker',
    log: services.log,
    prepare: takeUpDuty,
    lost() {
      owner = null
      // Without the lock others may take our runs, so our hands come off them first.
      for (const run of live.values()) run.abort.abort(new WorkerStopping())
    },
  })
  const timer = setInterval(look, options.pollMs ?? 2000)
  return {
    async stop() {
      stopping = true
      clearInterval(timer)
      for (const run of live.values()) run.abort.abort(new WorkerStopping())
      await Promise.allSettled([...live.values()].map((run) => run.done))
      await looking
      await connection.close()
    },
  }
}

/** The context a run works in: its tenant's, or the system's; it acts for the person who started it. */
async function contextOf(services: Services, run: ClaimedRun): Promise<TenantCtx | SystemCtx> {
  const log = services.log.child({ run: run.id, kind: run.kind })
  const actor: Actor | null = run.actorId
    ? { userId: run.actorId, email: run.actorEmail ?? '', fullName: null, isSuperuser: false, sessionId: null }
    : null
  const base = { ...services, log, requestId: run.id, audit: null }
  const { tenantId } = run
  if (!tenantId) return { ...base, kind: 'system', scope: 'system', actor }
  const tenant = await transaction(services.db, 'system', (tx) =>
    tx.selectFrom('tenants').select(['id', 'code']).where('id', '=', tenantId).executeTakeFirstOrThrow(),
  )
  return {
    ...base,
    kind: 'tenant',
    scope: { tenantId },
    tenant,
    actor: actor ?? {
      userId: '00000000-0000-0000-0000-000000000000',
      email: 'system',
      fullName: null,
      isSuperuser: false,
      sessionId: null,
    },
    permissions: permissionsOf('ADMIN'),
  }
}
