import { sql } from 'kysely'
import type { Tx } from '../db/transaction.ts'
import type { RunError, RunState, StepState } from './define-run.ts'

/** First number of the advisory locks by which workers prove that they live. */
export const workerLock = 7001

export type ClaimedRun = NonNullable<Awaited<ReturnType<typeof claimRun>>>

export interface Claimant {
  worker: number
  /** Runs it has in hand already; one it owns and does not have slipped through its fingers and is taken again. */
  live: string[]
  /** Kinds it knows. */
  kinds: string[]
  /** Those of them it has no room for: of these it takes only what is canceled, which is ended at once. */
  full: string[]
}

/** Takes the oldest run that waits, or one that a dead worker left behind. */
export async function claimRun(tx: Tx, { worker, live, kinds, full }: Claimant) {
  const result = await sql<{ id: string }>`
    select r.id from runs r
    where r.kind = any(${kinds}) and r.id <> all(${live}::uuid[])
      and (r.kind <> all(${full}) or r.cancel_requested_at is not null)
      and ((r.state = 'pending' and r.run_after <= now())
        or (r.state = 'running' and r.owner = ${worker})
        or (r.state = 'running' and not exists (
          select from pg_locks l where l.locktype = 'advisory' and l.granted
            and l.database = (select oid from pg_database where datname = current_database())
            and l.classid = ${sql.lit(workerLock)} and l.objid = r.owner::bigint::oid)))
    order by r.run_after, r.id
    limit 1
    for update skip locked`.execute(tx)
  const id = result.rows[0]?.id
  if (!id) return undefined
  return tx
    .updateTable('runs')
    .set({
      state: 'running',
      owner: worker,
      // Deaths in a row: one after ten minutes of work is not likely the fault of the run.
      interruptions: sql`case when state <> 'running' then interruptions
        when claimed_at < now() - interval '10 minutes' then 1 else interruptions + 1 end`,
      claimedAt: sql`now()`,
      startedAt: sql`coalesce(started_at, now())`,
    })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()
}

export async function loadSteps(tx: Tx, runId: string) {
  return tx.selectFrom('runSteps').selectAll().where('runId', '=', runId).orderBy('position').execute()
}

export interface StepChange {
  state?: StepState
  progress?: number
  message?: string | null
  output?: unknown
  saved?: unknown
}

/** Changes a step only while the worker still owns the run; false when it was taken away. */
export async function updateStep(
  tx: Tx,
  owner: number,
  runId: string,
  stepId: string,
  change: StepChange,
): Promise<boolean> {
  const { output, saved, ...plain } = change
  const row = await tx
    .updateTable('runSteps')
    .set({
      ...plain,
      ...(output === undefined ? {} : { output: JSON.stringify(output) }),
      ...(saved === undefined ? {} : { saved: JSON.stringify(saved) }),
      ...(change.state === 'running' ? { startedAt: sql`coalesce(started_at, now())`, endedAt: null } : {}),
      ...(change.state && change.state !== 'running' && change.state !== 'pending' ? { endedAt: sql`now()` } : {}),
    })
    .where('runId', '=', runId)
    .where('stepId', '=', stepId)
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('runs')
          .select('id')
          .where('id', '=', runId)
          .where('owner', '=', owner)
          .where('state', '=', 'running'),
      ),
    )
    .returning('stepId')
    .executeTakeFirst()
  return row !== undefined
}

export async function updateRunProgress(tx: Tx, runId: string): Promise<void> {
  await sql`update runs set progress = (
      select coalesce(avg(case when state in ('succeeded', 'skipped') then 1 else progress end), 0)
      from run_steps where run_id = ${runId})
    where id = ${runId}`.execute(tx)
}

/** Ends a run only while the worker still owns it. */
export async function endRun(
  tx: Tx,
  owner: number,
  runId: string,
  end: { state: RunState; error: RunError | null },
): Promise<boolean> {
  const row = await tx
    .updateTable('runs')
    .set({ state: end.state, error: end.error ? JSON.stringify(end.error) : null, endedAt: sql`now()`, owner: null })
    .where('id', '=', runId)
    .where('owner', '=', owner)
    .where('state', '=', 'running')
    .returning('id')
    .executeTakeFirst()
  if (row && end.state !== 'succeeded') {
    await tx
      .updateTable('runSteps')
      .set({ state: 'canceled', endedAt: sql`now()` })
      .where('runId', '=', runId)
      .where('state', 'in', end.state === 'canceled' ? ['pending', 'running'] : ['running'])
      .execute()
  }
  return row !== undefined
}

/** Gives a run back unharmed, because this process stops: any worker goes on at the same step. */
export async function releaseRun(tx: Tx, owner: number, runId: string): Promise<void> {
  await tx
    .updateTable('runs')
    .set({ state: 'pending', owner: null })
    .where('id', '=', runId)
    .where('owner', '=', owner)
    .where('state', '=', 'running')
    .execute()
}

/** Adds text to the log and returns the byte offset it begins at. Only the owner of a run writes its log. */
export async function appendLog(tx: Tx, runId: string, tenantId: string | null, text: string): Promise<number> {
  const end = await sql<{ at: number }>`
    select coalesce(max(byte_offset + byte_length), 0)::bigint as at from run_logs where run_id = ${runId}`.execute(tx)
  const byteOffset = Number(end.rows[0]?.at ?? 0)
  await tx
    .insertInto('runLogs')
    .values({ runId, tenantId, byteOffset, byteLength: Buffer.byteLength(text), text })
    .execute()
  return byteOffset
}
