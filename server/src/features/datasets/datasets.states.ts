/** States of datasets and uploads as data, shared with the console. @source contract B5.5, B5.10 */

export const datasetStates = ['DRAFT', 'UPLOADING', 'VALIDATING', 'READY', 'INVALID', 'SYNCING', 'FROZEN'] as const
export type DatasetState = (typeof datasetStates)[number]

export const validationStates = ['PENDING', 'RUNNING', 'PASSED', 'PASSED_WITH_WARNINGS', 'FAILED'] as const
export type ValidationState = (typeof validationStates)[number]

export const uploadStates = ['open', 'assembling', 'done', 'failed'] as const
export type UploadState = (typeof uploadStates)[number]

/** What the state of a dataset follows from. */
export interface DatasetFacts {
  frozen: boolean
  syncing: boolean
  /** Sessions that are open or assembling. */
  uploads: number
  files: number
  validation: ValidationState
  /** The files changed after the last report. */
  stale: boolean
}

/** The state is never set, only derived: no order of events can leave a wrong one behind. */
export function stateOf(facts: DatasetFacts): DatasetState {
  if (facts.frozen) return 'FROZEN'
  if (facts.syncing) return 'SYNCING'
  if (facts.validation === 'RUNNING') return 'VALIDATING'
  if (facts.uploads > 0) return 'UPLOADING'
  if (facts.files === 0) return 'DRAFT'
  if (facts.stale) return 'VALIDATING'
  if (facts.validation === 'PENDING') return 'DRAFT'
  return facts.validation === 'FAILED' ? 'INVALID' : 'READY'
}

export const freezeObstacles = {
  already_frozen: 'The dataset is frozen already.',
  syncing: 'A sync is running on this dataset.',
  open_upload: 'An upload is open: complete or abort it first.',
  empty: 'The dataset has no files.',
  validating: 'The dataset is being validated; wait for the report.',
  not_validated: 'The dataset has not been validated: revalidate it first.',
  invalid: 'The last validation found errors: mend or delete the files it names.',
} as const
export type FreezeObstacle = keyof typeof freezeObstacles

/** Why a dataset can't be frozen now, or null. @source contract PR-32 */
export function freezeObstacle(facts: DatasetFacts): FreezeObstacle | null {
  if (facts.frozen) return 'already_frozen'
  if (facts.syncing) return 'syncing'
  if (facts.uploads > 0) return 'open_upload'
  if (facts.files === 0) return 'empty'
  if (facts.stale || facts.validation === 'RUNNING') return 'validating'
  if (facts.validation === 'PENDING') return 'not_validated'
  return facts.validation === 'FAILED' ? 'invalid' : null
}
