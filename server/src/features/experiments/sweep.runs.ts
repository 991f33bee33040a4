import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { SystemCtx, TenantCtx } from '../../platform/context.ts'
import { defineRun, type StepRun, step } from '../../platform/runs/define-run.ts'
import { read } from '../../platform/transaction.ts'
import { listDatasetHolders, releaseStagedDataset, tidyDatasetCache } from '../dataset-cache/dataset-cache.api.ts'
import { isEndedState } from './experiments.states.ts'
import { findExperimentIds } from './experiments.store.ts'
import { jobName, workFolder, workRoot } from './work-folder.ts'
import { removeScratch } from './work-removal.ts'

const experimentJob = /^experiment-([0-9a-f-]{36})$/
const experimentFolder = /^[0-9a-f-]{36}$/

/**
 * Removes what interruptions and failures left (jobs, cache marks, checkpoints to go on from of ended experiments, work
 * folders of deleted ones), and laid-out datasets that nobody trains on any more.
 */
export const sweepRun = defineRun<null>({
  kind: 'experiments.sweep',
  steps: [step<null>('sweep', 'Remove what nobody needs any more', (s: StepRun<null>) => sweep(s.ctx))],
})

async function sweep(ctx: SystemCtx | TenantCtx): Promise<{ jobs: number; folders: number; datasets: number }> {
  const { dataDir } = ctx.config
  const { compute } = ctx.adapters
  const jobs = (await compute.list()).flatMap((job) => {
    const id = experimentJob.exec(job.handle.name)?.[1]
    return id ? [{ ...job, id }] : []
  })
  const folders = (await readdir(workRoot(dataDir)).catch(() => [])).filter((name) => experimentFolder.test(name))
  const holders = await listDatasetHolders(dataDir)
  // Read after the folders: an experiment is in the database before it has any.
  const ids = [...new Set([...jobs.map(({ id }) => id), ...folders, ...holders])]
  const known = await read(ctx, (tx) => findExperimentIds(tx, ids))
  const isOver = (id: string) => isEndedState(known.get(id) ?? 'KILLED')
  const strayJobs = jobs.filter(({ id }) => isOver(id))
  const strayFolders = folders.filter((id) => !known.has(id))
  for (const job of strayJobs) await compute.remove({ ...job.handle, name: jobName(job.id) })
  for (const id of holders.filter(isOver)) await releaseStagedDataset(dataDir, id)
  for (const id of folders.filter((id) => known.has(id) && isOver(id))) await removeScratch(workFolder(dataDir, id))
  for (const id of strayFolders) await rm(join(workRoot(dataDir), id), { recursive: true, force: true })
  return { jobs: strayJobs.length, folders: strayFolders.length, datasets: await tidyDatasetCache(ctx) }
}
