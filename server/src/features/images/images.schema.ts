import { Type } from 'typebox'
import { bytes, named, nullable, oneOf, timestamp, uuid } from '../../platform/schema.ts'
import { imageStates } from './images.states.ts'

const modelName = (description: string) => Type.String({ minLength: 1, maxLength: 256, description })
const modelVersion = (description: string) => Type.String({ minLength: 1, maxLength: 32, description })

/** @source service §2.4 */
export const BuildImageBody = named('BuildImageBody', {
  model_name: modelName('Model, in any case.'),
  version: modelVersion('Version of the model.'),
  builder_tag: Type.Optional(
    nullable(Type.String({ maxLength: 128, description: 'Serving builder; empty means the default one.' })),
  ),
})

export const ImageError = named('ImageError', {
  message: Type.String({ description: 'What went wrong.' }),
  step: nullable(Type.String({ description: 'Step of the build it happened in: check, build or publish.' })),
})

export const ModelImage = named('ModelImage', {
  id: uuid('Identifier of the image.'),
  model_name: Type.String({ description: 'Model it serves.' }),
  model_version: Type.String({ description: 'Version of the model.' }),
  builder_tag: Type.String({ description: 'Serving builder that made it.' }),
  state: oneOf(imageStates, { description: 'An endpoint takes it when it is READY.' }),
  progress: Type.Number({ minimum: 0, maximum: 1, description: 'How far the build is, from 0 to 1.' }),
  repository: nullable(Type.String({ description: 'Repository below /v2, tenant first; null until READY.' })),
  tag: nullable(Type.String({ description: 'Tag in the repository; null until READY.' })),
  digest: nullable(Type.String({ description: 'Digest of the manifest; null until READY.' })),
  reference: nullable(Type.String({ description: 'What `podman pull` takes: host/repository:tag@digest.' })),
  size_bytes: nullable(bytes('What a client pulls in all.')),
  error: nullable(ImageError),
  run_id: uuid('Run that builds it.'),
  created_by: Type.String({ description: 'E-mail of who started the build.' }),
  created_at: timestamp('When the build was started.'),
  ended_at: nullable(timestamp('When the build ended.')),
})

export const ImageDeleted = named('ImageDeleted', {
  id: uuid('Identifier of the image that is gone.'),
})

const Check = named('ImageCheck', {
  name: Type.String({ description: 'What was looked at: builder, storage, disk or queue.' }),
  ok: Type.Boolean({ description: 'Whether it stands in the way of a build.' }),
  message: Type.String({ description: 'What was found.' }),
})

export const Diagnostics = named('ImageDiagnostics', {
  ok: Type.Boolean({ description: 'Whether an image can be built now.' }),
  checks: Type.Array(Check),
})

const Issue = named('ModelIssue', {
  code: Type.String({
    description: 'Machine-readable: file_missing, file_lost, description_invalid or task_unsupported.',
  }),
  message: Type.String({ description: 'What is wrong, for people.' }),
  path: nullable(Type.String({ description: 'File of the version it is about.' })),
})

export const ModelCheck = named('ModelCheck', {
  model_name: Type.String({ description: 'Model, as it is written.' }),
  version: Type.String({ description: 'Version of the model.' }),
  ok: Type.Boolean({ description: 'Whether an image can be built of it.' }),
  issues: Type.Array(Issue),
})

export const BuildRun = named('ImageBuildRun', {
  run_id: uuid('Identifier of the run.'),
  state: oneOf(['pending', 'running', 'succeeded', 'failed', 'canceled'], { description: 'State of the run.' }),
  started_at: nullable(timestamp('When a worker took it up.')),
  ended_at: nullable(timestamp('When it ended.')),
  image_ref: nullable(Type.String({ description: 'What it published.' })),
  error: nullable(Type.String({ description: 'Why it failed.' })),
})

export const BuildLog = named('ImageBuildLog', {
  run_id: uuid('Run the lines are of.'),
  state: oneOf(['pending', 'running', 'succeeded', 'failed', 'canceled'], { description: 'State of the run.' }),
  lines: Type.Array(Type.String(), { description: 'The last lines, oldest first.' }),
  truncated: Type.Boolean({ description: 'Whether earlier lines were left out; logs/raw has them all.' }),
})

export const ImageQuery = Type.Object({
  model_name: Type.Optional(modelName('Images of this model alone, in any case.')),
  model_version: Type.Optional(modelVersion('Images of this version alone.')),
})

export const ModelCheckQuery = Type.Object({
  model_name: modelName('Model, in any case.'),
  version: modelVersion('Version of the model.'),
})

export const LogQuery = Type.Object({
  run_id: Type.Optional(uuid('A past run of this image; the present one when absent.')),
})

export const ImageParams = Type.Object({ image_id: uuid('Identifier of the image.') })
