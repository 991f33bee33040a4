import { type SqlBool, sql } from 'kysely'
import type { Ctx } from '../context.ts'
import type { Tx } from '../db/transaction.ts'
import { conflict, notFound } from '../errors.ts'
import { newId } from '../ids.ts'
import { endedRunStates, type RunKind, type RunState } from './define-run.ts'

/** Wakes the workers of all processes; the payload says why: `queued` or `cancel <run id>`. */
export const wakeChannel = 'platform_runs'

export interface StartOptions {
  /** What the run is about; a live run of the same kind on it makes the start a `conflict`. */
  subject?: string
  /** Not before this time. */
  after?: Date
}

/** Starts a run inside the caller's transaction: it exists if and only if that commits. Returns its id. */
export async function startRun<Input>(
  tx: Tx,
  ctx: Ctx,
  kind: RunKind<Input>,
  input: Input,
  options: StartOptions = {},
): Promise<string> {
  const tenantId = ctx.kind === 'tenant' ? ctx.tenant.id : null
  const actor = ctx.kind === 'anonymous' ? null : ctx.actor
  const id = await insertRun(tx, kind, {
    tenantId,
    input,
    subject: options.subject ?? null,
    after: options.after,
    actor,
  })
  if (!id) throw conflict('This is already under way.', { detail: { reason: 'already_running' } })
  return id
}

interface NewRun {
  tenantId: string | null
  input: unknown
  subject: string | null
  after?: Date | undefined
  actor: { userId: string; email: string } | null
}

/** Null when a live run of the kind has that subject. */
export async function insertRun(tx: Tx, kind: Pick<RunKind, 'kind' | 'steps'>, run: NewRun): Promise<string | null> {
  const id = newId()
  const inserted = await tx
    .insertInto('runs')
    .values({
      id,
      tenantId: run.tenantId,
      kind: kind.kind,
      subject: run.subject,
      input: JSON.stringify(run.input),
      actorId: run.actor?.userId ?? null,
      actorEmail: run.actor?.email ?? null,
      ...(run.after ? { runAfter: run.after } : {}),
    })
    // As a literal: a statement that is planned once for all parameters must still name the partial index.
    .onConflict((oc) =>
      oc.columns(['kind', 'subject']).where(sql<SqlBool>`state in ('pending', 'running')`).doNothing(),
    )
    .executeTakeFirst()
  if (Number(inserted.numInsertedOrUpdatedRows) === 0) return null
  await tx
    .insertInto('runSteps')
    .values(
      kind.steps.map((step, position) => ({
        runId: id,
        tenantId: run.tenantId,
        position,
        stepId: step.id,
        title: step.title,
      })),
    )
    .execute()
  await wake(tx, 'queued')
  return id
}

/** Asks a live run to end; its steps hear of it at once, wherever they run. Ended runs are left as they are. */
export async function cancelRun(tx: Tx, runId: string, reason: string): Promise<void> {
  const row = await tx
    .updateTable('runs')
    .set({ cancelRequestedAt: sql`coalesce(cancel_requested_at, now())`, cancelReason: reason })
    .where('id', '=', runId)
    .where('state', 'in', ['pending', 'running'])
    .returning('id')
    .executeTakeFirst()
  if (row) await wake(tx, `cancel ${runId}`)
}

/** Runs the steps again that have not succeeded. Throws `conflict` for a run that has not failed or been canceled. */
export async function retryRun(tx: Tx, runId: string): Promise<void> {
  const row = await tx
    .updateTable('runs')
    .set({
      state: 'pending',
      error: null,
      endedAt: null,
      cancelRequestedAt: null,
      cancelReason: null,
      interruptions: 0,
      owner: null,
    })
    .where('id', '=', runId)
    .where('state', 'in', ['failed', 'canceled'])
    .returning('id')
    .executeTakeFirst()
  if (!row) throw conflict('Only a failed or canceled run can be tried again.')
  await tx
    .updateTable('runSteps')
    .set({ state: 'pending', progress: 0, message: null, startedAt: null, endedAt: null })
    .where('runId', '=', runId)
    .where('state', 'not in', ['succeeded', 'skipped'])
    .execute()
  await wake(tx, 'queued')
}

export async function wake(tx: Tx, why: string): Promise<void> {
  await sql`select pg_notify(${wakeChannel}, ${why})`.execute(tx)
}

export interface StepView {
  id: string
  title: string
  state: string
  progress: number
  message: string | null
  startedAt: Date | null
  endedAt: Date | null
}

/** The step plan of a run in order. */
export async function listSteps(tx: Tx, runId: string): Promise<StepView[]> {
  return tx
    .selectFrom('runSteps')
    .select(['stepId as id', 'title', 'state', 'progress', 'message', 'startedAt', 'endedAt'])
    .where('runId', '=', runId)
    .orderBy('position')
    .execute()
}

/** Throws `not_found`. */
export async function getRun(tx: Tx, runId: string) {
  const row = await tx.selectFrom('runs').selectAll().where('id', '=', runId).executeTakeFirst()
  if (!row) throw notFound('There is no such run.')
  return row
}

export const isEnded = (state: string): boolean => endedRunStates.includes(state as RunState)

/** The log of a run in pieces, from a byte offset on; never all at once in memory. */
export async function* readRunLog(
  load: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>,
  runId: string,
  fromOffset = 0,
): AsyncGenerator<string> {
  let offset = fromOffset
  for (;;) {
    const rows = await load((tx) =>
      tx
        .selectFrom('runLogs')
        .select(['byteOffset', 'byteLength', 'text'])
        .where('runId', '=', runId)
        .where('byteOffset', '>=', offset)
        .orderBy('byteOffset')
        .limit(200)
        .execute(),
    )
    for (const row of rows) yield row.text
    const last = rows.at(-1)
    if (!last || rows.length < 200) return
    offset = last.byteOffset + last.byteLength
  }
}
