import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { defineRun, type StepRun, step } from '../../platform/runs/define-run.ts'
import { transaction } from '../../platform/transaction.ts'
import { deleteUpload, idleMs, listIdleUploads, liveUploads } from './dataset-uploads.store.ts'
import { lockDataset, settleDataset } from './datasets.store.ts'
import { listUploadFolders, removeUploadFolder, uploadFolder } from './upload-folders.ts'

/** Gives up sessions that were idle for a day, and what no session needs any more. @source contract B5.3 */
export const expireUploads = defineRun<null>({
  kind: 'datasets.expireUploads',
  steps: [
    step('sessions', 'Give up idle sessions', expireSessions),
    step('folders', 'Remove leftovers', removeLeftovers),
  ],
})

async function expireSessions(s: StepRun<null>): Promise<{ expired: number }> {
  const now = s.ctx.clock.now()
  const idle = await transaction(s.ctx, (tx) => listIdleUploads(tx, now))
  for (const { id, tenantId, datasetId } of idle) {
    await transaction(s.ctx, async (tx) => {
      await lockDataset(tx, tenantId, datasetId)
      await deleteUpload(tx, id)
      await settleDataset(tx, tenantId, datasetId)
    })
    await removeUploadFolder(s.ctx, id)
  }
  return { expired: idle.length }
}

/** Folders whose session has ended; young ones may belong to an upload that has no session yet. */
async function removeLeftovers(s: StepRun<null>): Promise<{ removed: number }> {
  const ids = await listUploadFolders(s.ctx)
  const live = await transaction(s.ctx, (tx) => liveUploads(tx, ids))
  let removed = 0
  for (const id of ids.filter((id) => !live.has(id))) {
    const folder = uploadFolder(s.ctx, id)
    const touched = await stat(join(folder, 'content')).catch(() => stat(folder).catch(() => null))
    if (!touched || s.ctx.clock.now().getTime() - touched.mtimeMs < idleMs) continue
    await removeUploadFolder(s.ctx, id)
    removed++
  }
  return { removed }
}
