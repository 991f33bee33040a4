import { defineFeature, type Feature } from '../../platform/feature.ts'
import { contentSweep, contentSweepSchedule } from './content-sweep.runs.ts'

/** The blob store as a whole: what nobody refers to any more goes. */
export const storageFeature = (features: () => Feature[]): Feature =>
  defineFeature({
    name: 'storage',
    runs: [contentSweep(() => features().flatMap(({ heldDigests }) => heldDigests ?? []))],
    schedules: [contentSweepSchedule],
  })
