import { Type } from 'typebox'
import { bytes, listOf, must, named, nullable, oneOf, timestamp, uuid } from '../../platform/schema.ts'
import { datasetParams } from './datasets.schema.ts'
import { uploadStates } from './datasets.states.ts'

const optional = Type.Optional
const count = (description: string) => Type.Integer({ minimum: 0, description })

/** @source service §2.2, contract B5.3 */
export const UploadSessionRequest = named('UploadSessionRequest', {
  filename: Type.String({ minLength: 1, maxLength: 4096, description: 'Name of the file; reduced to its last part.' }),
  size: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'Length of the file in bytes.' }),
  sha256: optional(
    nullable(
      Type.String({
        ...must('^[0-9a-fA-F]{64}$', 'be 64 hexadecimal digits'),
        description: 'SHA-256 of the file, to be checked at the end.',
      }),
    ),
  ),
  chunk_size: optional(
    nullable(Type.Integer({ minimum: 1, description: 'Wished length of a chunk in bytes; at most 32 MiB is taken.' })),
  ),
})

export const SkippedMember = named('SkippedMember', {
  path: Type.String({ description: 'Path in the archive.' }),
  reason: Type.String({ description: 'Why it was left out, for people.' }),
})

export const UploadResult = named('UploadResult', {
  created: count('Files that are new or have new content.'),
  skipped: Type.Array(SkippedMember, { description: 'What was left out, at most the first thousand.' }),
  skipped_total: count('How many were left out.'),
  file_ids: Type.Array(uuid('A file.'), { description: 'Files that are new or have new content; the first thousand.' }),
})

/** @source service §3.3, contract B5.5 */
export const UploadSession = named('UploadSession', {
  upload_id: uuid('Identifier of the session.'),
  dataset_id: Type.String({ description: 'The dataset the file is for.' }),
  filename: Type.String({ description: 'Name of the file.' }),
  size: bytes('Length of the file.'),
  chunk_size: bytes('Length of every chunk but the last.'),
  chunk_count: count('Number of chunks.'),
  state: oneOf(uploadStates, {
    description:
      'open takes chunks, also again after an assembly that found the storage full (error); done and failed are the end.',
  }),
  received: Type.Array(count('Index of a chunk.'), { description: 'Chunks that are safe here, ascending.' }),
  received_bytes: bytes('Sum of those.'),
  progress: Type.Number({ minimum: 0, maximum: 1, description: 'Of the assembly, from 0 to 1; 0 before it.' }),
  message: nullable(Type.String({ description: 'What the assembly is doing now, for people.' })),
  result: nullable(UploadResult),
  error: nullable(
    named('UploadError', {
      code: Type.String({ description: 'Such as sha256_mismatch or archive_invalid.' }),
      message: Type.String({ description: 'What went wrong, for people.' }),
    }),
  ),
  created_at: timestamp('When it was opened.'),
  expires_at: nullable(timestamp('When it is given up unless a chunk comes; null when it is not open.')),
})

export const UploadSessions = listOf(UploadSession)

export const ChunkReceived = named('ChunkReceived', {
  index: count('Index of this chunk.'),
  received: count('Number of chunks received so far.'),
  received_bytes: bytes('Sum of those.'),
})

export const uploadParams = Type.Object({
  ...datasetParams.properties,
  upload_id: Type.String({ format: 'uuid', description: 'Identifier of the session.' }),
})

export const chunkParams = Type.Object({
  ...uploadParams.properties,
  index: Type.Integer({ minimum: 0, maximum: 2_147_483_647, description: 'Index of the chunk, from 0.' }),
})
