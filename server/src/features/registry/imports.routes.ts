import { Type } from 'typebox'
import { tenant } from '../../platform/http/access.ts'
import { bodyLength, bodyStream } from '../../platform/http/bodies.ts'
import { listView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { uuid } from '../../platform/schema.ts'
import { importView } from './imports.present.ts'
import { ImportCreate, ImportList, ImportRecord } from './imports.schema.ts'
import {
  cancelImport,
  createImport,
  getImport,
  listRegistryImports,
  receiveImportChunk,
  removeImport,
  startImport,
} from './imports.service.ts'

const params = Type.Object({ import_id: uuid('Import.') })

/** @source service §2.7, §3.4, §4.11, contract RG-08 to RG-14, B6 */
export const importRoutes: Operation[] = [
  operation({
    id: 'registry.listImports',
    method: 'GET',
    path: '/api/v1/registry/imports',
    summary: 'Imports of image archives, the newest first; those under way always.',
    access: tenant('VIEW'),
    query: Type.Object({
      days: Type.Integer({
        minimum: 0,
        maximum: 36_500,
        default: 0,
        description: 'Only what ended within so many days; 0 for all.',
      }),
    }),
    responses: { 200: ImportList },
    handler: async (ctx, { query }) => listView((await listRegistryImports(ctx, query.days)).map(importView)),
  }),
  operation({
    id: 'registry.createImport',
    method: 'POST',
    path: '/api/v1/registry/imports',
    summary: 'Begin to import an image archive (docker save or OCI layout; plain, gzip or zstd).',
    access: tenant('DEVELOP'),
    audit: 'registry.import.create',
    body: ImportCreate,
    responses: { 201: ImportRecord },
    errors: { 409: 'The quota leaves less room than the archive needs.' },
    handler: async (ctx, { body }) => importView(await createImport(ctx, body)),
  }),
  operation({
    id: 'registry.sendImportChunk',
    method: 'PATCH',
    path: '/api/v1/registry/imports/{import_id}/chunks',
    summary: 'Send the next chunk, with Content-Range: bytes first-last/total; in order, one at a time.',
    access: tenant('DEVELOP'),
    audit: 'registry.import.send',
    params,
    bodyKind: 'stream',
    responses: { 200: ImportRecord },
    errors: {
      409: 'Another chunk is arriving, or the import takes no more.',
      413: 'The chunk is longer than chunk_size.',
      416: 'Not the next chunk; detail.offset says where to go on.',
    },
    handler: async (ctx, { params: { import_id: id }, request, signal }) =>
      importView(
        await receiveImportChunk(ctx, id, {
          contentRange: request.headers['content-range'],
          contentLength: bodyLength(request),
          content: bodyStream(request),
          signal,
        }),
      ),
  }),
  operation({
    id: 'registry.startImport',
    method: 'POST',
    path: '/api/v1/registry/imports/{import_id}:start',
    summary: 'Unpack and store the archive that has arrived; answers at once.',
    access: tenant('DEVELOP'),
    audit: 'registry.import.start',
    params,
    responses: { 200: ImportRecord },
    errors: { 409: 'The archive is not whole (detail.offset), or it was started before.' },
    handler: async (ctx, { params: { import_id: id } }) => importView(await startImport(ctx, id)),
  }),
  operation({
    id: 'registry.getImport',
    method: 'GET',
    path: '/api/v1/registry/imports/{import_id}',
    summary: 'How far an import is.',
    access: tenant('VIEW'),
    params,
    etag: true,
    responses: { 200: ImportRecord },
    handler: async (ctx, { params: { import_id: id } }) => importView(await getImport(ctx, id)),
  }),
  operation({
    id: 'registry.deleteImport',
    method: 'DELETE',
    path: '/api/v1/registry/imports/{import_id}',
    summary: 'Remove the record of an import that has ended; its images stay.',
    access: tenant('DEVELOP'),
    audit: 'registry.import.delete',
    params,
    responses: { 200: ImportRecord },
    errors: { 409: 'It has not ended.' },
    handler: async (ctx, { params: { import_id: id } }) => importView(await removeImport(ctx, id)),
  }),
  operation({
    id: 'registry.cancelImport',
    method: 'POST',
    path: '/api/v1/registry/imports/{import_id}:cancel',
    summary: 'Give up an import.',
    access: tenant('DEVELOP'),
    audit: 'registry.import.cancel',
    params,
    responses: { 200: ImportRecord },
    errors: { 409: 'It has ended already.' },
    handler: async (ctx, { params: { import_id: id } }) => importView(await cancelImport(ctx, id)),
  }),
]
