import { Type } from 'typebox'
import { pageQuery } from '../../platform/http/lists.ts'
import { bytes, named, nullable, oneOf, pageOf, timestamp, uuid } from '../../platform/schema.ts'
import { syncStates } from './dataset-syncs.store.ts'
import { syncActions } from './sync-objects.store.ts'

const optional = Type.Optional
const count = (description: string) => Type.Integer({ minimum: 0, description })

const cron = Type.String({
  minLength: 1,
  maxLength: 100,
  description: 'Cron expression of five fields in UTC, such as `0 3 * * *`; at most every five minutes.',
})
const patterns = Type.Array(Type.String({ minLength: 1, maxLength: 200, description: 'Such as `train/**/*.jpg`.' }), {
  maxItems: 50,
  description: 'Takes the objects that fit one of them; all when empty. `*`, `?` and `**`; without a slash, the name.',
})

export const SyncConfig = named('SyncConfig', {
  source_id: nullable(uuid('External source; null ends it: the files stay.')),
  prefix: optional(nullable(Type.String({ maxLength: 900, description: 'Folder within the source.' }))),
  include: optional(nullable(patterns)),
  delete_missing: optional(
    nullable(Type.Boolean({ description: 'Whether files go from the dataset when the source no longer has them.' })),
  ),
  schedule: optional(nullable(cron)),
})

const config = {
  source_id: uuid('External source.'),
  prefix: Type.String({ description: 'Folder within the source; empty for all of it.' }),
  include: patterns,
  delete_missing: Type.Boolean({ description: 'Whether files go when the source no longer has them.' }),
  schedule: nullable(cron),
  next_at: nullable(timestamp('When it comes next; null for by hand alone.')),
  updated_by: Type.String({ description: 'E-mail of who set it.' }),
  updated_at: timestamp('When it was set.'),
}

export const SyncConfigView = named('SyncConfigView', config)

const SyncCounts = named('SyncCounts', {
  added: count('Files that were added, or in a dry run would be.'),
  updated: count('Files that got new content.'),
  removed: count('Files that were removed.'),
  skipped: count('Objects that were left alone; the unchanged ones are among them.'),
  unchanged: count('Objects whose file has their content already.'),
  failed: count('Objects that could not be read.'),
  bytes: bytes('Read from the source.'),
})

const SyncError = named('SyncError', {
  code: Type.String({ description: 'Such as completed_with_errors, incomplete_listing, source_unreachable.' }),
  message: Type.String({ description: 'What happened, for people.' }),
})

const run = {
  run_id: uuid('The sync.'),
  source_id: uuid('The source it read.'),
  source_name: Type.String({ description: 'Its name then.' }),
  dry_run: Type.Boolean({ description: 'Whether it only told what it would do.' }),
  trigger: oneOf(['manual', 'schedule'], { description: 'What began it.' }),
  state: oneOf(syncStates, { description: 'A DONE one with an error has done what it could.' }),
  counts: SyncCounts,
  error: nullable(SyncError),
  started_by: Type.String({ description: 'E-mail, or schedule.' }),
  started_at: timestamp('When it began.'),
  ended_at: nullable(timestamp('When it ended.')),
}

export const SyncRun = named('SyncRun', run)
export const SyncRunPage = pageOf(SyncRun)

export const SyncStatus = named('SyncStatus', {
  config: nullable(SyncConfigView),
  state: oneOf(['IDLE', ...syncStates], { description: 'Of the last sync; IDLE before the first.' }),
  run_id: nullable(uuid('The last sync.')),
  counts: nullable(SyncCounts),
  error: nullable(SyncError),
  dry_run: Type.Boolean({ description: 'Whether the last sync only told what it would do.' }),
  progress: Type.Number({ minimum: 0, maximum: 1, description: 'How far it is, 0 to 1.' }),
  message: nullable(Type.String({ description: 'What it is doing.' })),
  started_at: nullable(timestamp('When it began.')),
  ended_at: nullable(timestamp('When it ended.')),
})

export const SyncStarted = named('SyncStarted', {
  run_id: uuid('The sync.'),
  dry_run: Type.Boolean({ description: 'Whether it only tells what it would do.' }),
})

export const SyncOutcomePage = pageOf(
  named('SyncOutcome', {
    path: Type.String({ description: 'Path in the dataset, or the name in the source where it has none.' }),
    action: oneOf(syncActions, { description: 'What became of it, or would.' }),
    reason: nullable(Type.String({ description: 'Why it was left out or failed.' })),
    size: nullable(bytes('As the source says.')),
  }),
)

export const SyncStartQuery = Type.Object({
  dry_run: Type.Boolean({ default: false, description: 'Only tell what would be done.' }),
})
export const SyncRunQuery = Type.Object({ ...pageQuery })
export const SyncOutcomeQuery = Type.Object({
  ...pageQuery,
  action: optional(oneOf(syncActions, { description: 'Only objects that this became of; `fail` lists the errors.' })),
})

const dataset = Type.String({ minLength: 1, maxLength: 200, description: 'Dataset.' })
export const datasetParams = Type.Object({ dataset_id: dataset })
export const syncRunParams = Type.Object({ dataset_id: dataset, run_id: uuid('Sync.') })
