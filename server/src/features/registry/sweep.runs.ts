import type { Schedule } from '../../platform/runs/define-run.ts'
import { defineRun, step } from '../../platform/runs/define-run.ts'
import { expireSessions, removeOrphans, sweepBlobs } from './sweep.service.ts'
import { announceExpiry } from './token-expiry.ts'

/** Keeps the registry tidy while it is in use; there is no read-only mode. */
export const sweepRun = defineRun<null>({
  kind: 'registry.sweep',
  maxConcurrent: 1,
  steps: [
    step('sessions', 'End uploads and imports that rest', async ({ ctx }) => ({ ended: await expireSessions(ctx) })),
    step('orphans', 'Remove files without a session', async ({ ctx }) => ({ removed: await removeOrphans(ctx) })),
    step('blobs', 'Unlink blobs that no manifest names', ({ ctx }) =>
      sweepBlobs(ctx, { tenantId: null, dryRun: false }),
    ),
    step('tokens', 'Announce tokens that expire soon', async ({ ctx }) => ({ announced: await announceExpiry(ctx) })),
  ],
})

export const sweepSchedule: Schedule = {
  name: 'registry.sweep',
  every: 3600_000,
  kind: sweepRun.kind,
  input: null,
}
