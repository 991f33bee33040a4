import type { FileRow } from './dataset-files.store.ts'
import type { listUsage } from './dataset-training.store.ts'
import type { UploadProgress } from './dataset-uploads.service.ts'
import { idleMs } from './dataset-uploads.store.ts'
import type { DatasetRow, DatasetSummaryRow } from './datasets.store.ts'

export const summaryView = (row: DatasetSummaryRow) => ({
  id: row.id,
  name: row.name,
  source: row.source,
  modality: row.modality,
  format: row.format,
  schema_version: row.schemaVersion,
  storage_uri: row.storageUri,
  status: row.state,
  validation_status: row.validationStatus,
  record_count: row.recordCount,
  file_count: row.fileCount,
  size_bytes: row.sizeBytes,
  tasks: row.tasks,
  class_count: row.classes.length,
  splits: row.splits,
  digest: row.digest,
  frozen_at: row.frozenAt,
  parent_id: row.parentId,
  version: row.version,
  external_source_id: row.externalSourceId,
  created_by: row.createdBy,
  created_at: row.createdAt,
  updated_at: row.updatedAt,
})

export const manifestView = (row: DatasetRow) => ({
  ...summaryView(row),
  classes: row.classes,
  key_fields: row.keyFields,
  variables: row.variables,
  validation: row.validation,
  statistics: row.statistics,
})

export const fileView = (row: FileRow) => ({
  file_id: row.id,
  dataset_id: row.datasetId,
  name: fileName(row),
  path: row.path,
  size: row.size,
  digest: row.digest,
  media_type: row.mediaType,
  kind: row.kind,
  origin: row.origin,
  status: row.status,
  fault: row.fault,
  width: row.width,
  height: row.height,
  label: row.label,
  split: row.split,
  created_at: row.createdAt,
})

export const fileName = (row: { path: string }): string => row.path.slice(row.path.lastIndexOf('/') + 1)

export const uploadView = ({ upload, received, assembly }: UploadProgress) => ({
  upload_id: upload.id,
  dataset_id: upload.datasetId,
  filename: upload.filename,
  size: upload.size,
  chunk_size: upload.chunkSize,
  chunk_count: Math.ceil(upload.size / upload.chunkSize),
  state: upload.state,
  received,
  received_bytes: upload.receivedBytes,
  progress: upload.state === 'done' ? 1 : (assembly?.progress ?? 0),
  message: assembly?.message ?? null,
  result: upload.state === 'done' ? upload.result : null,
  error: upload.error,
  created_at: upload.createdAt,
  expires_at: upload.state === 'open' ? new Date(upload.touchedAt.getTime() + idleMs) : null,
})

export const usageView = (use: Awaited<ReturnType<typeof listUsage>>[number]) => ({
  experiment_id: use.experimentId,
  experiment_name: use.experimentName,
  state: use.state,
  started_at: use.startedAt,
  ended_at: use.endedAt,
})
