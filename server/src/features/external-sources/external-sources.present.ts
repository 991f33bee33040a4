import type { LinkedDataset } from '../datasets/dataset-sync.api.ts'
import type { SourceRow } from './external-sources.store.ts'

export const sourceView = (row: SourceRow) => ({
  id: row.id,
  name: row.name,
  kind: row.kind,
  config: row.config,
  has_credentials: row.credentials !== null,
  created_by: row.createdBy,
  created_at: row.createdAt,
  updated_at: row.updatedAt,
})

export const sourceDetailView = ({ source, datasets }: { source: SourceRow; datasets: LinkedDataset[] }) => ({
  ...sourceView(source),
  datasets: datasets.map(({ id, name, state }) => ({ id, name, status: state })),
})
