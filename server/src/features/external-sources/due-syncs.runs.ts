import { PlatformError } from '../../platform/errors.ts'
import { defineRun, type Schedule, type StepRun, step } from '../../platform/runs/define-run.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { hasFeature } from '../tenants/tenants.api.ts'
import { startSyncRun } from './dataset-syncs.service.ts'
import { listDueConfigs, type SyncConfigRow, setNextTime } from './dataset-syncs.store.ts'
import { nextTime } from './sync-schedule.ts'

const dueAtOnce = 200

/** Starts the syncs whose time has come. */
export const startDueSyncs = defineRun<null>({
  kind: 'external-sources.startDue',
  steps: [step('start', 'Start what is due', startDue)],
})

export const dueSchedule: Schedule = {
  name: 'external-sources.startDue',
  every: 30_000,
  kind: startDueSyncs.kind,
  input: null,
}

async function startDue(s: StepRun<null>): Promise<void> {
  const now = s.ctx.clock.now()
  for (const config of await read(s.ctx, (tx) => listDueConfigs(tx, now, dueAtOnce))) {
    s.signal.throwIfAborted()
    await startOne(s, config, now)
  }
}

async function startOne(s: StepRun<null>, config: SyncConfigRow, now: Date): Promise<void> {
  const { tenantId, datasetId, schedule } = config
  const target = { tenantId, datasetId }
  const next = schedule === null ? null : nextTime(schedule, now)
  try {
    await transaction(s.ctx, async (tx) => {
      await setNextTime(tx, target, next)
      if (!(await hasFeature(tx, tenantId, 'external-sources'))) return
      const id = await startSyncRun(tx, target, { dryRun: false, trigger: 'schedule', actor: null, now })
      s.log(`${datasetId}: ${id}`)
    })
  } catch (error) {
    if (!(error instanceof PlatformError)) throw error
    const reason = (error.detail as { reason?: string } | null)?.reason
    s.log(`${datasetId}: ${error.message}`)
    // An assembly ends soon: the next look tries again. A frozen dataset never changes any more.
    if (reason === 'upload_assembling') return
    await transaction(s.ctx, (tx) => setNextTime(tx, target, reason === 'dataset_frozen' ? null : next))
  }
}
