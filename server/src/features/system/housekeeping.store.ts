import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

/** Removes log lines of runs of the tenant that ended before, at most so many; says how many. */
export async function deleteRunLogs(tx: Tx, tenantId: string, endedBefore: Date, limit: number): Promise<number> {
  const result = await sql`
    delete from run_logs where (run_id, byte_offset) in (
      select l.run_id, l.byte_offset from run_logs l join runs r on r.id = l.run_id
      where l.tenant_id = ${tenantId} and r.tenant_id = ${tenantId} and r.ended_at < ${endedBefore}
      limit ${limit})`.execute(tx)
  return Number(result.numAffectedRows ?? 0)
}

/** Removes runs that schedules started and that ended before, at most so many; those that failed stay longer. */
export async function deleteScheduledRuns(
  tx: Tx,
  before: { succeeded: Date; other: Date },
  limit: number,
): Promise<number> {
  const result = await sql`
    delete from runs where id in (
      select id from runs where tenant_id is null and subject like 'schedule:%'
        and (ended_at < ${before.other} or (state = 'succeeded' and ended_at < ${before.succeeded}))
      limit ${limit})`.execute(tx)
  return Number(result.numAffectedRows ?? 0)
}
