import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Services } from '../../platform/context.ts'
import { type Step, step } from '../../platform/runs/define-run.ts'
import { read } from '../../platform/transaction.ts'
import { releaseStagedDataset } from '../dataset-cache/dataset-cache.api.ts'
import { listExperimentIds } from './experiments.store.ts'
import { jobName, type WorkFolder, workFolder } from './work-folder.ts'

/** Removes what experiments keep outside the database: job, use of the cache, folder. The sweep ends what a crash cuts. */
export async function removeWork({ adapters, config }: Services, experimentIds: string[]): Promise<void> {
  const names = new Set(experimentIds.map(jobName))
  const jobs = (await adapters.compute.list()).filter(({ handle }) => names.has(handle.name))
  for (const { handle } of jobs) await adapters.compute.remove(handle)
  for (const id of experimentIds) {
    await releaseStagedDataset(config.dataDir, id)
    await rm(workFolder(config.dataDir, id).root, { recursive: true, force: true })
  }
}

/** Removes what only a training that goes on needs: its last checkpoint, the largest file of all, and its own dataset. */
export async function removeScratch({ output, data }: WorkFolder): Promise<void> {
  await rm(join(output, 'checkpoints', 'last.pt'), { force: true })
  await rm(data, { recursive: true, force: true })
}

/** The part of a tenant's deletion that no row takes along. */
export const purgeWork: Step<{ tenantId: string; tenantCode: string }> = step(
  'training-files',
  'Remove the files of trainings',
  async (s) => {
    const ids = await read(s.ctx, (tx) => listExperimentIds(tx, s.input.tenantId))
    await removeWork(s.ctx, ids)
    s.log(`${ids.length} trainings: files removed`)
  },
)
