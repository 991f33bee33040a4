import type { Config } from '../../platform/config.ts'
import type { Services } from '../../platform/context.ts'
import { defineFeature, type Feature } from '../../platform/feature.ts'
import { experimentOutputRoutes } from './experiment-outputs.routes.ts'
import { experimentRoutes } from './experiments.routes.ts'
import { trainingRun } from './experiments.runs.ts'
import { heldContents } from './held-contents.store.ts'
import { sweepRun } from './sweep.runs.ts'
import { recallTrainerEnvironment } from './trainer-environment.ts'
import { trainingAdminRoutes } from './training-admin.routes.ts'
import { purgeWork } from './work-removal.ts'

export const experimentsFeature = ({ trainingSlots }: Pick<Config, 'trainingSlots'>): Feature =>
  defineFeature({
    name: 'experiments',
    operations: [...experimentRoutes, ...experimentOutputRoutes, ...trainingAdminRoutes],
    runs: [{ ...trainingRun, maxConcurrent: trainingSlots }, sweepRun],
    schedules: [{ name: 'experiments.sweep', every: 600_000, kind: sweepRun.kind, input: null }],
    tenantPurge: [purgeWork],
    heldDigests: heldContents,
    healthChecks: [
      {
        name: 'trainer environment',
        remedy: 'Start a training: it looks for a Python again and installs PyTorch where it can. Its log says more.',
        check: checkTrainer,
      },
    ],
    notificationGroups: [{ name: 'training', title: 'Training' }],
  })

async function checkTrainer({ config: { dataDir, trainerPython } }: Services): Promise<Record<string, unknown>> {
  const known = await recallTrainerEnvironment({ dataFolder: dataDir, trainerPython: trainerPython ?? undefined })
  if (!known) return { status: 'disabled', message: 'Looked for when the next training starts.' }
  const { python, torchVersion, torchvisionVersion, device, source } = known
  return { version: torchVersion, python, torchvision: torchvisionVersion, device, source }
}
