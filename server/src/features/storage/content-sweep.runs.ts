import { defineRun, type RunKind, type Schedule, step } from '../../platform/runs/define-run.ts'
import { type HeldDigests, sweepContents } from './content-sweep.service.ts'

const kind = 'storage.sweep'

/** Removes content of the blob store that no row of any feature refers to, while everything goes on. */
export const contentSweep = (holders: () => HeldDigests[]): RunKind =>
  defineRun<null>({
    kind,
    maxConcurrent: 1,
    steps: [
      step('contents', 'Remove content that nothing refers to', async (s) => {
        const swept = await sweepContents(s.ctx, holders(), { signal: s.signal, dryRun: false })
        if (swept.postponed) s.log('a backup is running: the next sweep goes on')
        s.log(
          `${swept.removed} contents of ${swept.removedBytes} bytes removed, ${swept.waiting} wait for the next look`,
        )
        return swept
      }),
    ],
  })

export const contentSweepSchedule: Schedule = { name: kind, every: 6 * 3600_000, kind, input: null }
