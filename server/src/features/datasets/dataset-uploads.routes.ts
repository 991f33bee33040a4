import { tenant } from '../../platform/http/access.ts'
import { bodyLength, bodyStream } from '../../platform/http/bodies.ts'
import { listView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { contentDigest } from './chunk-digest.ts'
import {
  ChunkReceived,
  chunkParams,
  UploadSession,
  UploadSessionRequest,
  UploadSessions,
  uploadParams,
} from './dataset-uploads.schema.ts'
import {
  abortUpload,
  completeUpload,
  createUpload,
  getUpload,
  listUploads,
  putChunk,
} from './dataset-uploads.service.ts'
import { uploadView } from './datasets.present.ts'
import { datasetParams } from './datasets.schema.ts'
import { droppingRest } from './dropped-content.ts'

const closed = 'The dataset is frozen, or a sync is running on it (detail.reason).'

/** @source service §3.3, contract DS-12 … DS-15, PR-34, PR-35 */
export const datasetUploadRoutes: Operation[] = [
  operation({
    id: 'datasets.createUpload',
    method: 'POST',
    path: '/api/v1/datasets/{dataset_id}/uploads',
    summary: 'Open an upload in chunks; the chunk_size of the answer rules.',
    access: tenant('DATASET_WRITE'),
    audit: 'dataset.upload.create',
    params: datasetParams,
    body: UploadSessionRequest,
    responses: { 201: UploadSession },
    errors: { 409: `${closed} Or too many uploads are under way.` },
    handler: async (ctx, { params, body }) =>
      uploadView({ upload: await createUpload(ctx, params.dataset_id, body), received: [] }),
  }),
  operation({
    id: 'datasets.listUploads',
    method: 'GET',
    path: '/api/v1/datasets/{dataset_id}/uploads',
    summary: 'Uploads that are open or being assembled.',
    access: tenant('VIEW'),
    params: datasetParams,
    responses: { 200: UploadSessions },
    handler: async (ctx, { params }) => listView((await listUploads(ctx, params.dataset_id)).map(uploadView)),
  }),
  operation({
    id: 'datasets.getUpload',
    method: 'GET',
    path: '/api/v1/datasets/{dataset_id}/uploads/{upload_id}',
    summary: 'State of an upload and the chunks that are safe here.',
    access: tenant('VIEW'),
    params: uploadParams,
    responses: { 200: UploadSession },
    handler: async (ctx, { params }) => uploadView(await getUpload(ctx, params.dataset_id, params.upload_id)),
  }),
  operation({
    id: 'datasets.putChunk',
    method: 'PUT',
    path: '/api/v1/datasets/{dataset_id}/uploads/{upload_id}/chunks/{index}',
    summary: 'Send one chunk, in any order, in parallel, and again; a Content-Digest of sha-256 is checked.',
    access: tenant('DATASET_WRITE'),
    audit: 'dataset.upload.chunk',
    params: chunkParams,
    bodyKind: 'stream',
    responses: { 200: ChunkReceived },
    errors: {
      400: 'The chunk is shorter than it should be (detail.expected), or not what Content-Digest says.',
      409: 'The session takes no more chunks, the dataset is frozen, or a sync is running.',
      413: 'The chunk is longer than it should be.',
      507: 'The storage is full; the session stays as it was.',
    },
    handler: async (ctx, { params, request, signal }) => {
      const digest = contentDigest(request.headers['content-digest'] as string | undefined)
      const lengthBytes = bodyLength(request)
      const { receivedChunks, receivedBytes } = await droppingRest(bodyStream(request), (content) =>
        putChunk(ctx, params.dataset_id, params.upload_id, {
          index: params.index,
          content,
          lengthBytes,
          digest,
          signal,
        }),
      )
      return { index: params.index, received: receivedChunks, received_bytes: receivedBytes }
    },
  }),
  operation({
    id: 'datasets.completeUpload',
    method: 'POST',
    path: '/api/v1/datasets/{dataset_id}/uploads/{upload_id}:complete',
    summary: 'All chunks are sent: assemble and validate in the background.',
    access: tenant('DATASET_WRITE'),
    audit: 'dataset.upload.complete',
    params: uploadParams,
    responses: { 202: UploadSession },
    errors: { 409: 'Chunks are missing (detail.missing), the upload failed, or the dataset takes no files.' },
    handler: async (ctx, { params }) => uploadView(await completeUpload(ctx, params.dataset_id, params.upload_id)),
  }),
  operation({
    id: 'datasets.abortUpload',
    method: 'DELETE',
    path: '/api/v1/datasets/{dataset_id}/uploads/{upload_id}',
    summary: 'Give up an open upload.',
    access: tenant('DATASET_WRITE'),
    audit: 'dataset.upload.abort',
    params: uploadParams,
    responses: { 204: null },
    errors: { 409: 'It is no longer open.' },
    handler: (ctx, { params }) => abortUpload(ctx, params.dataset_id, params.upload_id),
  }),
]
