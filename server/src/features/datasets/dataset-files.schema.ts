import { Type } from 'typebox'
import { listQuery } from '../../platform/http/lists.ts'
import {
  anyObject,
  bytes,
  named,
  nullable,
  oneOf,
  pageOf,
  sha256Digest,
  timestamp,
  uuid,
} from '../../platform/schema.ts'
import { fileOrigins, fileStatuses } from './dataset-files.store.ts'
import { datasetParams } from './datasets.schema.ts'
import { fileKinds } from './file-kinds.ts'

const optional = Type.Optional
const pixels = (description: string) => nullable(Type.Integer({ minimum: 1, description: `${description} In pixels.` }))

const file = {
  file_id: uuid('Identifier of the file.'),
  dataset_id: Type.String({ description: 'The dataset it belongs to.' }),
  name: Type.String({ description: 'Last part of the path.' }),
  path: Type.String({ description: 'Path inside the dataset, with slashes.' }),
  size: bytes('Length.'),
  digest: sha256Digest('Digest of the content.'),
  media_type: Type.String({ description: 'Media type.' }),
  kind: oneOf(fileKinds, { description: 'What it is.' }),
  origin: oneOf(fileOrigins, { description: 'How it came here.' }),
  status: oneOf(fileStatuses, { description: 'PENDING until it was looked into.' }),
  fault: nullable(Type.String({ description: 'What is wrong with it, for people.' })),
  width: pixels('Width as shown.'),
  height: pixels('Height as shown.'),
  label: nullable(Type.String({ description: 'Class of the whole image.' })),
  split: nullable(oneOf(['train', 'val', 'test'], { description: 'Part of the dataset it stands in.' })),
  created_at: timestamp('When it was added.'),
}

export const DatasetFile = named('DatasetFile', file)

export const AnnotatedObject = named('AnnotatedObject', {
  class: Type.String({ description: 'Name of the class.' }),
  shape: oneOf(['box', 'polygon', 'mask', 'keypoints', 'oriented_box'], { description: 'How it is outlined.' }),
  geometry: anyObject('`box` [x, y, width, height] around it, and `polygons`, `rle` or `keypoints`; in pixels.'),
})

export const DatasetFileDetail = named('DatasetFileDetail', {
  ...file,
  objects: Type.Array(AnnotatedObject, { description: 'What is annotated on the image.' }),
})

export const UploadedFile = named('UploadedDatasetFile', {
  ...file,
  created: Type.Boolean({ description: 'False when the dataset had this very file already.' }),
})

/** @source contract B4.3 */
export const fileSorts = { created_at: 'time', name: 'text', size: 'number', kind: 'text', status: 'text' } as const

export const FileQuery = listQuery(fileSorts, {
  status: optional(oneOf(fileStatuses, { description: 'Only files in this state.' })),
  kind: optional(oneOf(fileKinds, { description: 'Only files of this kind.' })),
  origin: optional(oneOf(fileOrigins, { description: 'Only files that came this way.' })),
})

export const FilePage = pageOf(DatasetFile)

export const fileParams = Type.Object({
  ...datasetParams.properties,
  file_id: Type.String({ format: 'uuid', description: 'Identifier of the file.' }),
})

export const ContentQuery = Type.Object({
  variant: optional(
    oneOf(['original', 'preview'], { description: 'The bytes as they came, or a WebP of at most 1,024 pixels.' }),
  ),
  download: optional(Type.Boolean({ default: false, description: 'Offer it for saving instead of showing it.' })),
})
