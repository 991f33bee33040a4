import { tenant } from '../../platform/http/access.ts'
import { uploadedFile } from '../../platform/http/bodies.ts'
import { contentAnswer } from '../../platform/http/content.ts'
import { pageView } from '../../platform/http/lists.ts'
import { type Operation, operation, raw } from '../../platform/http/operation.ts'
import { uploadArchive } from './dataset-archive.service.ts'
import {
  ContentQuery,
  DatasetFileDetail,
  FilePage,
  FileQuery,
  fileParams,
  UploadedFile,
} from './dataset-files.schema.ts'
import { deleteFile, getFile, getFileWithObjects, listFiles, previewOf, uploadFile } from './dataset-files.service.ts'
import { UploadResult } from './dataset-uploads.schema.ts'
import { fileName, fileView } from './datasets.present.ts'
import { datasetParams, ForceQuery } from './datasets.schema.ts'
import { droppingRest } from './dropped-content.ts'

const closed = 'The dataset is frozen, or a sync is running on it (detail.reason).'
const tooLarge = 'The file is larger than allowed, or than the dataset has room for.'

/** @source service §4.2, contract DS-09 … DS-11, DS-16 … DS-18 */
export const datasetFileRoutes: Operation[] = [
  operation({
    id: 'datasets.listFiles',
    method: 'GET',
    path: '/api/v1/datasets/{dataset_id}/files',
    summary: 'Files of a dataset.',
    access: tenant('VIEW'),
    params: datasetParams,
    query: FileQuery,
    responses: { 200: FilePage },
    handler: async (ctx, { params, query }) => {
      const { items, total } = await listFiles(ctx, params.dataset_id, query)
      return pageView(query, { items: items.map(fileView), total })
    },
  }),
  operation({
    id: 'datasets.uploadFile',
    method: 'POST',
    path: '/api/v1/datasets/{dataset_id}/files',
    summary: 'Upload one file in one request.',
    access: tenant('DATASET_WRITE'),
    audit: 'dataset.file.upload',
    params: datasetParams,
    bodyKind: 'multipart',
    responses: { 201: UploadedFile },
    errors: { 409: closed, 413: tooLarge, 507: 'The storage is full.' },
    handler: async (ctx, { params, request, signal }) => {
      const { filename, content: whole } = await uploadedFile(request)
      const { file, created } = await droppingRest(whole, (content) =>
        uploadFile(ctx, params.dataset_id, { filename, content }, signal),
      )
      return { ...fileView(file), created }
    },
  }),
  operation({
    id: 'datasets.uploadArchive',
    method: 'POST',
    path: '/api/v1/datasets/{dataset_id}/archive',
    summary: 'Upload a ZIP archive in one request; each member becomes a file.',
    access: tenant('DATASET_WRITE'),
    audit: 'dataset.archive.upload',
    params: datasetParams,
    bodyKind: 'multipart',
    responses: { 201: UploadResult },
    errors: { 409: closed, 413: tooLarge, 507: 'The storage is full.' },
    handler: async (ctx, { params, request, signal }) => {
      const { filename, content: whole } = await uploadedFile(request)
      return droppingRest(whole, (content) => uploadArchive(ctx, params.dataset_id, { filename, content }, signal))
    },
  }),
  operation({
    id: 'datasets.getFile',
    method: 'GET',
    path: '/api/v1/datasets/{dataset_id}/files/{file_id}',
    summary: 'One file with what is annotated on it.',
    access: tenant('VIEW'),
    params: fileParams,
    etag: true,
    responses: { 200: DatasetFileDetail },
    handler: async (ctx, { params }) => {
      const { file, objects } = await getFileWithObjects(ctx, params.dataset_id, params.file_id)
      return { ...fileView(file), objects }
    },
  }),
  operation({
    id: 'datasets.deleteFile',
    method: 'DELETE',
    path: '/api/v1/datasets/{dataset_id}/files/{file_id}',
    summary: 'Delete one file.',
    access: tenant('DATASET_WRITE'),
    audit: 'dataset.file.delete',
    params: fileParams,
    query: ForceQuery,
    responses: { 204: null },
    errors: { 409: 'A training uses the dataset, or used it (or it is frozen) and force is not set.' },
    handler: (ctx, { params, query }) => deleteFile(ctx, params.dataset_id, params.file_id, query.force ?? false),
  }),
  operation({
    id: 'datasets.fileContent',
    method: 'GET',
    path: '/api/v1/datasets/{dataset_id}/files/{file_id}/content',
    summary: 'The bytes of a file, or a preview of an image.',
    access: tenant('VIEW'),
    params: fileParams,
    query: ContentQuery,
    responses: { 200: raw('application/octet-stream', 'The content; ranges and conditions are honoured.') },
    errors: { 206: 'A range of it.', 304: 'Not changed.', 416: 'The range lies outside.' },
    handler: async (ctx, { params, query, request }) => {
      const file = await getFile(ctx, params.dataset_id, params.file_id)
      const preview = query.variant === 'preview' ? await previewOf(ctx, file) : null
      const name = fileName(file)
      return contentAnswer(ctx.blobs, request, {
        ...(preview ?? { digest: file.digest, size: file.size }),
        contentType: preview ? 'image/webp' : file.mediaType,
        filename: preview ? `${name.replace(/\.[^.]+$/, '')}.webp` : name,
        download: query.download ?? false,
      })
    },
  }),
]
