import type { PageQuery } from '../../platform/http/lists.ts'
import { pageView } from '../../platform/http/lists.ts'
import type { ReferenceRow } from './manifests.store.ts'
import type { ManifestView, pageOfTags } from './repositories.service.ts'
import type { RepositoryItem } from './repositories.store.ts'

export const repositoryView = (host: string, row: RepositoryItem) => ({
  name: row.name,
  address: `${host}/${row.name}`,
  tags: row.tagCount ?? 0,
  manifests: row.manifestCount ?? 0,
  size_bytes: row.sizeBytes,
  pull_count: row.pullCount,
  last_pulled_at: row.lastPulledAt?.toISOString() ?? null,
  created_at: row.createdAt.toISOString(),
  updated_at: row.updatedAt.toISOString(),
})

export function tagPageView(host: string, query: PageQuery, page: Awaited<ReturnType<typeof pageOfTags>>) {
  const items = page.items.map((tag) => ({
    name: tag.name,
    digest: tag.digest,
    media_type: tag.mediaType,
    kind: tag.kind,
    size_bytes: tag.totalSize,
    reference: `${host}/${page.repository.name}:${tag.name}@${tag.digest}`,
    created_at: tag.createdAt.toISOString(),
    updated_at: tag.updatedAt.toISOString(),
  }))
  return pageView(query, { items, total: page.total })
}

const descriptorView = ({ mediaType, digest, size }: ReferenceRow) => ({
  media_type: mediaType,
  digest,
  size_bytes: size,
})

export function manifestView(host: string, view: ManifestView) {
  const { repository, manifest, tags, references, holds, imageConfig } = view
  const of = (role: ReferenceRow['role']) => references.filter((row) => row.role === role).map(descriptorView)
  return {
    repository: repository.name,
    digest: manifest.digest,
    reference: `${host}/${repository.name}@${manifest.digest}`,
    media_type: manifest.mediaType,
    kind: manifest.kind,
    size_bytes: manifest.size,
    total_size_bytes: manifest.totalSize,
    tags,
    config: of('config')[0] ?? null,
    image_config: imageConfig,
    layers: of('layer'),
    manifests: of('manifest'),
    subject: manifest.subject,
    artifact_type: manifest.artifactType,
    annotations: manifest.annotations,
    in_use_by: holds.map(({ holder, reason }) => ({ holder, reason })),
    created_at: manifest.createdAt.toISOString(),
  }
}
