import { Type } from 'typebox'
import { bytes, listOf, named, nullable, oneOf, timestamp, uuid } from '../../platform/schema.ts'

const optionalText = (maxLength: number, description: string) =>
  Type.Optional(nullable(Type.String({ maxLength, description })))

export const ImportCreate = named('RegistryImportCreate', {
  repository: optionalText(255, 'Name within the tenant; taken from the archive when absent.'),
  tag: optionalText(128, 'Tag; taken from the archive when absent, else latest.'),
  size_bytes: Type.Integer({ minimum: 1, description: 'Length of the whole archive in bytes.' }),
  filename: optionalText(255, 'Name of the file, for people.'),
})

export const ImportRecord = named('RegistryImport', {
  id: uuid('Import.'),
  status: oneOf(['UPLOADING', 'RUNNING', 'READY', 'FAILED', 'CANCELED'], { description: 'State of the import.' }),
  phase: oneOf(['upload', 'assemble', 'inspect', 'done'], {
    description: 'What is being done: taking the archive, unpacking it, checking and storing its images.',
  }),
  progress: Type.Integer({ minimum: 0, maximum: 100, description: 'How far the whole import is, in percent.' }),
  received_bytes: bytes('What has arrived; the next chunk starts here.'),
  size_bytes: bytes('The whole archive.'),
  chunk_size: bytes('Longest chunk taken.'),
  repository: nullable(Type.String({ description: 'Name as asked for.' })),
  tag: nullable(Type.String({ description: 'Tag as asked for.' })),
  filename: nullable(Type.String({ description: 'Name of the file.' })),
  image: nullable(Type.String({ description: 'What docker pull takes, when it is READY: host, name, tag, digest.' })),
  images: Type.Array(Type.String(), { description: 'All names and tags the archive brought.' }),
  error: nullable(
    named('RegistryImportError', {
      code: Type.String({
        description:
          'bad_tar, no_manifest, digest_mismatch, missing_blob, no_name, bad_name, several_images, quota, expired or platform.',
      }),
      message: Type.String({ description: 'What is wrong and what to do.' }),
    }),
  ),
  created_by: Type.String({ description: 'E-mail of who began it.' }),
  created_at: timestamp('Begin.'),
  ended_at: nullable(timestamp('End; null while it goes on.')),
})

export const ImportList = listOf(ImportRecord)
