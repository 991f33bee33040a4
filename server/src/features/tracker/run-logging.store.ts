import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'
import type { MetricPoint } from './metrics.store.ts'
import { type NewTrackerRun, runIdOf } from './runs.store.ts'

/** What one request logs to a run. */
export interface RunLog {
  runId: string
  metrics: MetricPoint[]
  params: [key: string, value: string][]
  tags: [key: string, value: string][]
}

export interface LogOutcome {
  /** Null when there is no such run; nothing was logged unless it is active. */
  lifecycle: 'active' | 'deleted' | null
  /** A parameter that holds another value: then nothing was logged. */
  changedKey: string | null
  held: string | null
  given: string | null
}

const logged: LogOutcome = { lifecycle: 'active', changedKey: null, held: null, given: null }

/**
 * What many requests log, in one round trip; each of them is logged whole or not at all, and hears its own outcome. Two
 * requests with parameters for the same run do not go together.
 */
export async function logToRuns(tx: Tx, tenantId: string, requests: RunLog[]): Promise<LogOutcome[]> {
  const metrics = requests.flatMap((request, place) => request.metrics.map((metric) => ({ ...metric, place })))
  const result = await sql<LogOutcome & { request: number }>`
    select * from tracker_log(${tenantId}, ${requests.map((request) => request.runId)}::uuid[],
      ${labelColumns(requests.map((request) => request.params))},
      ${labelColumns(requests.map((request) => request.tags))},
      ${metrics.map((metric) => metric.place + 1)}::integer[], ${metrics.map((metric) => metric.key)}::text[],
      ${metrics.map((metric) => metric.step)}::bigint[], ${metrics.map((metric) => metric.timestampMs)}::bigint[],
      ${metrics.map((metric) => metric.value)}::float8[])`.execute(tx)
  const outcomes = requests.map(() => logged)
  for (const { request, ...refused } of result.rows) outcomes[request - 1] = refused
  return outcomes
}

/** A run to open, with its tags. */
export interface RunOpening extends Omit<NewTrackerRun, 'status'> {
  tags: [key: string, value: string][]
}

export interface OpenedRun {
  runId: string
  /** Of the experiment, null when there is none; the run was opened only in an active one. */
  lifecycle: string | null
  /** Where the experiment keeps artifacts; null for the platform's own store. */
  location: string | null
}

/** Opens runs in one round trip. */
export async function openRuns(tx: Tx, tenantId: string, runs: RunOpening[]): Promise<OpenedRun[]> {
  const ids = runs.map(() => newId())
  const result = await sql<Omit<OpenedRun, 'runId'>>`
    select * from tracker_create_runs(${tenantId}, ${runs.map((run) => run.experimentId)}::bigint[], ${ids}::uuid[],
      ${runs.map((run) => run.name)}::text[], ${runs.map((run) => run.userName)}::text[],
      ${runs.map((run) => run.startMs)}::bigint[], ${labelColumns(runs.map((run) => run.tags))})`.execute(tx)
  return result.rows.map((row, place) => ({ runId: runIdOf(ids[place]!), ...row }))
}

/** Labels of several owners as three arrays: the place of the owner from 1, the key and the value. */
function labelColumns(lists: [key: string, value: string][][]) {
  const all = lists.flatMap((list, place) => list.map(([key, value]) => ({ place: place + 1, key, value })))
  return sql`${all.map((label) => label.place)}::integer[], ${all.map((label) => label.key)}::text[],
    ${all.map((label) => label.value)}::text[]`
}
