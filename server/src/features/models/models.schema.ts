import { Type } from 'typebox'
import {
  anyJson,
  bytes,
  countingNumber,
  listOf,
  named,
  notBlank,
  nullable,
  oneOf,
  pageOf,
  sha256Digest,
  timestamp,
  uuid,
} from '../../platform/schema.ts'
import { stages } from './models.stages.ts'

const count = (description: string) => Type.Integer({ minimum: 0, description })
const text = (description: string) => Type.String({ description })
const texts = (description: string) => Type.Record(Type.String(), Type.String(), { description })

export const StageName = oneOf(stages, { description: 'Stage of a version.' })
const versionNumber = Type.String({
  ...countingNumber,
  description: 'Version, a counting number.',
  examples: ['3'],
})

const StageCell = nullable(
  named('StageCell', { count: count('Versions in this stage.'), latest_version: versionNumber }),
)

export const ModelOut = named('Model', {
  name: text('Name as it was first written; addresses take it in any case.'),
  description: text('What the model is for.'),
  tags: texts('Free labels.'),
  versions: count('Number of versions.'),
  latest_version: nullable(versionNumber),
  stages: Type.Object(
    { none: StageCell, staging: StageCell, production: StageCell, archived: StageCell },
    { description: 'How many versions are in which stage, and the newest of each; null where there is none.' },
  ),
  aliases: texts('Alias and the version it points to.'),
  created_at: timestamp('When the model was made.'),
  updated_at: timestamp('When the model or its versions last changed.'),
})

export const ModelPage = pageOf(ModelOut)

export const ModelSummary = named('ModelSummary', {
  models: count('Number of models.'),
  production: count('Versions in Production.'),
  staging: count('Versions in Staging.'),
  archived: count('Versions in Archived.'),
  none: count('Versions in no stage.'),
})

export const DatasetRef = named('ModelDataset', {
  id: text('Dataset.'),
  name: text('Its name when the model was trained.'),
  digest: text('Digest of its frozen content.'),
})

const version = {
  name: text('Name of the model.'),
  version: versionNumber,
  stage: StageName,
  stage_since: timestamp('When it got its stage.'),
  description: text('What this version is.'),
  aliases: Type.Array(Type.String(), { description: 'Aliases that point here.' }),
  tags: texts('Free labels.'),
  task: nullable(text('What it solves, such as image_classification.')),
  framework: nullable(text('Framework it was trained with.')),
  architecture: nullable(text('Model of the framework, such as resnet18.')),
  classes: Type.Array(Type.String(), { description: 'Names of its outputs, in their order.' }),
  metrics: Type.Record(Type.String(), Type.Number(), { description: 'Figures of its evaluation.' }),
  run_id: nullable(text('Tracker run it came from.')),
  experiment_id: nullable(text('Tracker experiment of that run.')),
  dataset: nullable(DatasetRef),
  files: count('Number of files.'),
  size_bytes: bytes('All files together.'),
  created_by: text('Who registered it.'),
  created_at: timestamp('When it was registered.'),
  updated_at: timestamp('When it last changed.'),
}

export const VersionOut = named('ModelVersion', version)
export const VersionPage = pageOf(VersionOut)

const KeyValue = Type.Object({ key: text('Key.'), value: text('Value.') })

const Lineage = named('ModelLineage', {
  dataset: nullable(DatasetRef),
  experiment: nullable(
    Type.Object({
      id: text('Tracker experiment.'),
      name: text('Its name.'),
      run_id: text('Tracker run.'),
      run_name: text('Name of the run.'),
      status: text('How the run ended.'),
      params: Type.Array(KeyValue, { description: 'Parameters of the run.' }),
    }),
  ),
  code: Type.Object({
    source: nullable(text('File or project that was run.')),
    commit: nullable(text('Git commit.')),
    repository: nullable(text('Git repository.')),
    branch: nullable(text('Git branch.')),
    entry_point: nullable(text('Entry point of the project.')),
  }),
  environment: texts('Package or property and its version.'),
})

const StagePeriod = named('StagePeriod', {
  stage: StageName,
  from: timestamp('When it got the stage.'),
  to: nullable(timestamp('When it lost the stage; null while it has it.')),
  actor: text('Who gave it the stage.'),
  reason: nullable(text('Why.')),
  promotion_id: nullable(uuid('Promotion that gave it the stage.')),
})

export const VersionDetail = named('ModelVersionDetail', {
  ...version,
  signature: anyJson('Inputs and outputs as the framework or MLflow describes them; null when unknown.'),
  source: text('Where an MLflow client finds the files.'),
  file_list: Type.Array(
    named('ModelFile', { path: text('Path.'), size: bytes('Length.'), digest: sha256Digest('Content.') }),
  ),
  lineage: Lineage,
  history: Type.Array(StagePeriod, { description: 'Every stage it had, oldest first; nobody can change it.' }),
})

export const CommentOut = named('ModelComment', {
  id: uuid('Comment.'),
  version: versionNumber,
  author: text('Who wrote it.'),
  body: text('Text.'),
  created_at: timestamp('When it was written.'),
})
export const CommentList = listOf(CommentOut)

export const CommentCreate = named('CommentCreate', {
  body: Type.String({ minLength: 1, maxLength: 10_000, ...notBlank, description: 'Text of the comment.' }),
})

export const StageChange = named('StageChange', {
  stage: Type.String({ maxLength: 20, description: 'None, Staging or Archived, in any case.', examples: ['Staging'] }),
  reason: Type.Optional(nullable(Type.String({ maxLength: 2000, description: 'Why; kept in the history.' }))),
})
