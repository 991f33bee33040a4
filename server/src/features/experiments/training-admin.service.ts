import type { SystemCtx } from '../../platform/context.ts'
import { read } from '../../platform/transaction.ts'
import type { ExperimentState } from './experiments.states.ts'
import { findLastEnvironment, listLiveExperiments } from './experiments.store.ts'
import { trainingThreads } from './launch.ts'
import { jobName } from './work-folder.ts'

/** What trains right now on this machine, across tenants, and on what. */
export async function getTrainingRuntime(ctx: SystemCtx) {
  const { live, last } = await read(ctx, async (tx) => ({
    live: await listLiveExperiments(tx),
    last: await findLastEnvironment(tx),
  }))
  const jobs = new Map((await ctx.adapters.compute.list()).map((job) => [job.handle.name, job]))
  const running = live.filter(({ state }) => state !== 'PENDING')
  return {
    driver: [...jobs.values()][0]?.handle.driver ?? null,
    slots: ctx.config.trainingSlots,
    pending: live.length - running.length,
    threads: trainingThreads(ctx.config),
    memory_bytes: ctx.config.trainingMemoryBytes || null,
    environment: last?.environment ?? null,
    running: running.map(({ id, name, state, startedAt, tenantCode }) => ({
      experiment_id: id,
      tenant: tenantCode,
      name,
      state: state as ExperimentState,
      started_at: startedAt?.toISOString() ?? null,
      job: jobView(jobName(id), jobs.get(jobName(id))?.status ?? { state: 'absent' }),
    })),
  }
}

function jobView(name: string, status: { state: string; pid?: number; memoryBytes?: number }) {
  return { name, state: status.state, pid: status.pid ?? null, memory_bytes: status.memoryBytes ?? null }
}
