import { Type } from 'typebox'
import { listQuery } from '../../platform/http/lists.ts'
import {
  anyObject,
  bytes,
  listOf,
  must,
  named,
  notBlank,
  nullable,
  oneOf,
  pageOf,
  sha256Digest,
  timestamp,
  uuid,
} from '../../platform/schema.ts'
import { datasetStates, validationStates } from './datasets.states.ts'

const optional = Type.Optional
const count = (description: string) => Type.Integer({ minimum: 0, description })
const text = (maxLength: number, description: string) => Type.String({ maxLength, description })
const optionalText = (maxLength: number, description: string) => optional(nullable(text(maxLength, description)))

const name = Type.String({ minLength: 1, maxLength: 200, ...notBlank, description: 'Name for display.' })
const modality = optionalText(100, 'What the samples are, such as image or tabular.')
const source = optionalText(200, 'Where the data comes from, in free words; a filter of the list.')

/** @source service §2.2, anchors §2 (VariableBody) */
export const VariableBody = named('VariableBody', {
  name: text(200, 'Name of the column.'),
  dtype: text(50, 'Type: integer, number, boolean, text, time, category or list.'),
  role: optionalText(50, 'feature, label, id, time or weight.'),
  unit: optionalText(50, 'Unit of the values.'),
  nullable: optional(nullable(Type.Boolean({ description: 'Whether values may be missing.' }))),
  min: optional(nullable(Type.Number({ description: 'Least value.' }))),
  max: optional(nullable(Type.Number({ description: 'Greatest value.' }))),
  categories: optional(nullable(Type.Array(text(500, 'A value.'), { maxItems: 1000, description: 'Known values.' }))),
  missing_rate: optional(
    nullable(Type.Number({ minimum: 0, maximum: 1, description: 'Share of rows without a value, 0 to 1.' })),
  ),
})

const severity = oneOf(['error', 'warning'], { description: 'Errors keep the dataset from being frozen.' })

export const ValidationIssue = named('ValidationIssue', {
  code: text(100, 'What was found, such as unreadable_image.'),
  severity,
  message: text(2000, 'What was found, for people.'),
  file_id: optional(nullable(uuid('The file, where there is one.'))),
  path: optionalText(4096, 'Its path.'),
  line: optional(nullable(Type.Integer({ minimum: 1, description: 'Line in the file, from 1.' }))),
})

/** @source service §2.2, anchors §2 (ValidationBody) */
export const ValidationBody = named('ValidationBody', {
  checked_at: timestamp('When it was validated.'),
  total: count('Files, or rows of a table, that were looked at.'),
  ok: count('Those without an error.'),
  warnings: count('Number of warnings.'),
  errors: count('Number of errors.'),
  match_rate: nullable(
    Type.Number({ minimum: 0, maximum: 1, description: 'Share of images with annotations; null without such.' }),
  ),
  counts: optional(
    Type.Array(named('ValidationCount', { code: text(100, 'What was found.'), severity, count: count('How often.') }), {
      description: 'Every code that was found.',
    }),
  ),
  issues: optional(
    Type.Array(ValidationIssue, { maxItems: 10_000, description: 'Findings, at most a hundred per code.' }),
  ),
})

const range = (description: string) =>
  nullable(
    Type.Object(
      {
        min: count('Least.'),
        median: count('Median.'),
        max: count('Greatest.'),
      },
      { description },
    ),
  )

export const DatasetStatistics = named('DatasetStatistics', {
  images: count('Images.'),
  width: range('Widths of the images in pixels.'),
  height: range('Heights of the images in pixels.'),
  annotated_images: count('Images that an annotation speaks of.'),
  objects: count('Annotated objects.'),
  objects_by_shape: Type.Record(Type.String(), count('Objects.'), {
    description: 'Annotated objects per shape: box, polygon, mask, keypoints, oriented_box.',
  }),
  rows: count('Rows of the tables.'),
  classes: Type.Array(
    Type.Object({
      name: Type.String({ description: 'Name of the class.' }),
      samples: count('Images or rows that show it.'),
      objects: count('Annotated objects of it.'),
      splits: Type.Record(Type.String(), count('Samples.'), { description: 'Samples per split: train, val, test.' }),
    }),
    { description: 'Per class, in the order of their numbers.' },
  ),
})

const summary = {
  id: Type.String({ description: 'Identifier, unique in the tenant.' }),
  name: Type.String({ description: 'Name for display.' }),
  source: nullable(Type.String({ description: 'Where the data comes from.' })),
  modality: nullable(Type.String({ description: 'What the samples are.' })),
  format: nullable(Type.String({ description: 'Layout of the files, as found by the validation or declared.' })),
  schema_version: nullable(Type.String({ description: 'Version of the schema of the data.' })),
  storage_uri: nullable(Type.String({ description: 'Where the data lies, when it is kept elsewhere.' })),
  status: oneOf(datasetStates, { description: 'What may be done with it now; only FROZEN ones can be trained on.' }),
  validation_status: oneOf(validationStates, { description: 'Outcome of the last validation.' }),
  record_count: count('Images, or rows of tables.'),
  file_count: count('Files.'),
  size_bytes: bytes('Sum of its files.'),
  tasks: Type.Array(Type.String(), { description: 'Training tasks whose shape it has.' }),
  class_count: count('Number of classes.'),
  splits: Type.Record(Type.String(), count('Samples.'), { description: 'Samples per split; `none` for no split.' }),
  digest: nullable(sha256Digest('Digest over paths, contents, labels and splits; set by freezing.')),
  frozen_at: nullable(timestamp('When it was frozen.')),
  parent_id: nullable(Type.String({ description: 'The dataset it is a new version of.' })),
  version: Type.Integer({ minimum: 1, description: 'Number in its line of versions, from 1.' }),
  external_source_id: nullable(uuid('The external source it is synced from.')),
  created_by: Type.String({ description: 'Who made it.' }),
  created_at: timestamp('When it was made.'),
  updated_at: timestamp('When it last changed.'),
}

export const DatasetSummary = named('DatasetSummary', summary)

/** @source contract DS-04 */
export const DatasetManifest = named('DatasetManifest', {
  ...summary,
  classes: Type.Array(Type.String(), { description: 'Names of the classes in the order of their numbers.' }),
  key_fields: Type.Array(anyObject('A field that identifies records.'), { description: 'As declared.' }),
  variables: Type.Array(VariableBody, { description: 'Columns of a table.' }),
  validation: nullable(ValidationBody),
  statistics: nullable(DatasetStatistics),
})

const datasetId = must(
  '^[a-z0-9][a-z0-9._-]{0,62}$',
  'be at most 63 of a-z, 0-9, dots, hyphens and underscores, a letter or digit first',
)
export const datasetParams = Type.Object({
  dataset_id: Type.String({ minLength: 1, maxLength: 200, description: 'Identifier of the dataset.' }),
})

/** @source service §2.2 */
export const DatasetCreate = named('DatasetCreate', {
  id: Type.String({ ...datasetId, description: 'Identifier: a-z, 0-9, dots, hyphens, underscores.' }),
  name,
  source,
  schema_version: optionalText(50, 'Version of the schema of the data.'),
  record_count: optional(nullable(count('Records, for data that is kept elsewhere.'))),
  size_bytes: optional(nullable(bytes('Size of data that is kept elsewhere.'))),
  format: optionalText(100, 'Layout of the files.'),
  key_fields: optional(Type.Array(anyObject('A field that identifies records.'), { maxItems: 100 })),
  storage_uri: optionalText(2000, 'Where the data lies, when it is kept elsewhere.'),
  validation_status: optional(
    oneOf(['PENDING', 'PASSED', 'PASSED_WITH_WARNINGS', 'FAILED'], {
      description: 'Outcome of a validation made elsewhere.',
    }),
  ),
  validation: optional(nullable(ValidationBody)),
  variables: optional(Type.Array(VariableBody, { maxItems: 5000 })),
})

export const DraftCreate = named('DraftCreate', { name, modality, source })

export const DatasetUpdate = named('DatasetUpdate', { name: optional(nullable(name)), source, modality })

export const datasetSorts = {
  created_at: 'time',
  name: 'text',
  records: 'number',
  size: 'number',
  validation: 'text',
} as const

export const DatasetQuery = listQuery(datasetSorts, {
  source: optional(Type.String({ maxLength: 200, description: 'Only datasets of this source.' })),
  status: optional(oneOf(datasetStates, { description: 'Only datasets in this state.' })),
  external_source: optional(uuid('Only datasets that are synced from this external source.')),
})

export const DatasetPage = pageOf(DatasetSummary)

export const ForceQuery = Type.Object({
  force: optional(Type.Boolean({ default: false, description: 'Delete it though finished trainings used it.' })),
})

export const SampleQuery = Type.Object({
  limit: optional(Type.Integer({ minimum: 1, maximum: 200, default: 20, description: 'Most rows.' })),
})

/** @source contract DS-07 */
export const DatasetSample = named('DatasetSample', {
  columns: Type.Array(Type.String(), { description: 'Names of the columns, in order.' }),
  items: Type.Array(anyObject('One row: column → value.'), { description: 'The first rows.' }),
  total: count('Rows in this answer.'),
})

/** @source contract DS-08 */
export const DatasetUsage = listOf(
  named('DatasetUsage', {
    experiment_id: Type.String({ description: 'The experiment.' }),
    experiment_name: Type.String({ description: 'Its name.' }),
    state: oneOf(['running', 'ended'], { description: 'Whether it is still under way.' }),
    started_at: timestamp('When it began.'),
    ended_at: nullable(timestamp('When it ended.')),
  }),
)
