import { Type } from 'typebox'
import { tenant } from '../../platform/http/access.ts'
import { listQuery, pageQuery, pageView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { manifestView, repositoryView, tagPageView } from './repositories.present.ts'
import {
  RegistryManifest,
  RegistryTagPage,
  RepositoryDeleted,
  RepositoryPage,
  TagDeleted,
} from './repositories.schema.ts'
import { deleteRepository, deleteTag, getManifest, pageOfRepositories, pageOfTags } from './repositories.service.ts'
import { repositorySorts } from './repositories.store.ts'
import { registryHost } from './repository-names.ts'

const name = Type.String({
  minLength: 1,
  maxLength: 255,
  description: 'Name of the repository, with or without the tenant in front; slashes as they are or as %2F.',
})
const inUse = 'An image or endpoint still needs it; detail.holders says which.'

/** @source service §4.11, contract RG-05 to RG-07, PR-62, PR-63 */
export const repositoryRoutes: Operation[] = [
  operation({
    id: 'registry.listRepositories',
    method: 'GET',
    path: '/api/v1/registry/repositories',
    summary: 'Repositories of the tenant, with their size and use.',
    access: tenant('VIEW'),
    query: listQuery(repositorySorts, {}),
    responses: { 200: RepositoryPage },
    handler: async (ctx, { query }) => {
      const { items, total } = await pageOfRepositories(ctx, query)
      return pageView(query, { items: items.map((row) => repositoryView(registryHost(ctx), row)), total })
    },
  }),
  operation({
    id: 'registry.listTags',
    method: 'GET',
    path: '/api/v1/registry/repositories/{name+}/tags',
    summary: 'Tags of a repository with digest and size, the newest first.',
    access: tenant('VIEW'),
    params: Type.Object({ name }),
    query: Type.Object(pageQuery),
    responses: { 200: RegistryTagPage },
    handler: async (ctx, { params, query }) =>
      tagPageView(registryHost(ctx), query, await pageOfTags(ctx, params.name, query)),
  }),
  operation({
    id: 'registry.getManifest',
    method: 'GET',
    path: '/api/v1/registry/repositories/{name+}/manifests/{reference+}',
    summary: 'A manifest by tag or digest, with configuration and layers.',
    access: tenant('VIEW'),
    params: Type.Object({
      name,
      reference: Type.String({ minLength: 1, maxLength: 255, description: 'Tag or digest.' }),
    }),
    etag: true,
    responses: { 200: RegistryManifest },
    handler: async (ctx, { params }) =>
      manifestView(registryHost(ctx), await getManifest(ctx, params.name, params.reference)),
  }),
  operation({
    id: 'registry.deleteTag',
    method: 'DELETE',
    path: '/api/v1/registry/repositories/{name+}/tags/{tag}',
    summary: 'Take a tag away; the manifest stays.',
    access: tenant('DEVELOP'),
    audit: 'registry.tag.delete',
    params: Type.Object({ name, tag: Type.String({ minLength: 1, maxLength: 128, description: 'Tag.' }) }),
    responses: { 200: TagDeleted },
    errors: { 409: inUse },
    handler: (ctx, { params }) => deleteTag(ctx, params.name, params.tag),
  }),
  operation({
    id: 'registry.deleteRepository',
    method: 'DELETE',
    path: '/api/v1/registry/repositories/{name+}',
    summary: 'Delete a repository with all its tags and manifests.',
    access: tenant('DEVELOP'),
    audit: 'registry.repository.delete',
    params: Type.Object({ name }),
    responses: { 200: RepositoryDeleted },
    errors: { 409: inUse },
    handler: async (ctx, { params }) => {
      const { name: repository, tagCount, manifestCount, sizeBytes } = await deleteRepository(ctx, params.name)
      return { repository, tags: tagCount ?? 0, manifests: manifestCount ?? 0, size_bytes: sizeBytes }
    },
  }),
]
