import { Type } from 'typebox'
import { tenant } from '../../platform/http/access.ts'
import { listQuery, listView, pageQuery, pageView } from '../../platform/http/lists.ts'
import { type Operation, operation, raw } from '../../platform/http/operation.ts'
import { modelSorts } from './model-lists.store.ts'
import { commentView, modelView, summaryView, versionDetailView, versionView } from './models.present.ts'
import * as schema from './models.schema.ts'
import * as models from './models.service.ts'
import { getVersionDetails } from './version-details.ts'
import { downloadVersion } from './version-files.ts'

const inUse = 'A version is in Production, or an endpoint or image stands on it.'

const ModelQuery = listQuery(modelSorts, {
  production: Type.Optional(
    Type.Boolean({ description: 'true: only models with a version in Production; false: only those without.' }),
  ),
})

/** @source service §4.4, contract MD-01 to MD-05, MD-07, MD-08, MD-10 to MD-12, PR-57 */
export const modelRoutes: Operation[] = [
  operation({
    id: 'models.list',
    method: 'GET',
    path: '/api/v1/models',
    summary: 'Models with how many versions are in which stage.',
    access: tenant('VIEW'),
    query: ModelQuery,
    responses: { 200: schema.ModelPage },
    handler: async (ctx, { query }) => {
      const { items, total } = await models.listModels(ctx, query)
      return pageView(query, { items: items.map(modelView), total })
    },
  }),
  operation({
    id: 'models.summarise',
    method: 'GET',
    path: '/api/v1/models/summary',
    summary: 'How many versions are in which stage.',
    access: tenant('VIEW'),
    responses: { 200: schema.ModelSummary },
    handler: async (ctx) => summaryView(await models.countModels(ctx)),
  }),
  operation({
    id: 'models.get',
    method: 'GET',
    path: '/api/v1/models/{name}',
    summary: 'One model.',
    access: tenant('VIEW'),
    etag: true,
    responses: { 200: schema.ModelOut },
    handler: async (ctx, { params }) => modelView(await models.getModel(ctx, params.name!)),
  }),
  operation({
    id: 'models.delete',
    method: 'DELETE',
    path: '/api/v1/models/{name}',
    summary: 'Delete a model with all its versions.',
    access: tenant('MODEL_REGISTER'),
    audit: 'model.delete',
    responses: { 204: null },
    errors: { 409: inUse },
    handler: (ctx, { params }) => models.removeModel(ctx, params.name!),
  }),
  operation({
    id: 'models.listVersions',
    method: 'GET',
    path: '/api/v1/models/{name}/versions',
    summary: 'Versions of a model, newest first.',
    access: tenant('VIEW'),
    query: Type.Object(pageQuery),
    responses: { 200: schema.VersionPage },
    handler: async (ctx, { params, query }) => {
      const { items, total } = await models.listModelVersions(ctx, params.name!, query)
      return pageView(query, { items: items.map(versionView), total })
    },
  }),
  operation({
    id: 'models.getVersion',
    method: 'GET',
    path: '/api/v1/models/{name}/versions/{version}',
    summary: 'One version with its files, where it came from and every stage it had.',
    access: tenant('VIEW'),
    etag: true,
    responses: { 200: schema.VersionDetail },
    handler: async (ctx, { params }) => versionDetailView(await getVersionDetails(ctx, params.name!, params.version!)),
  }),
  operation({
    id: 'models.downloadVersion',
    method: 'GET',
    path: '/api/v1/models/{name}/{version}/download',
    summary: 'The files of a version: one as it is (by range, if asked), several as a ZIP.',
    access: tenant('VIEW'),
    responses: {
      200: raw('application/octet-stream', 'The file, or a ZIP of all files.'),
      206: raw('application/octet-stream', 'The part of the file that was asked for.'),
    },
    errors: { 304: 'Not changed.', 416: 'The range lies outside the file.' },
    handler: (ctx, { params, request }) => downloadVersion(ctx, params.name!, params.version!, request),
  }),
  operation({
    id: 'models.listComments',
    method: 'GET',
    path: '/api/v1/models/{name}/{version}/comments',
    summary: 'Comments on a version, newest first.',
    access: tenant('VIEW'),
    responses: { 200: schema.CommentList },
    handler: async (ctx, { params }) => {
      const comments = await models.listVersionComments(ctx, params.name!, params.version!)
      return listView(comments.map(commentView))
    },
  }),
  operation({
    id: 'models.addComment',
    method: 'POST',
    path: '/api/v1/models/{name}/{version}/comments',
    summary: 'Comment on a version.',
    access: tenant('DEVELOP'),
    audit: 'model.comment',
    body: schema.CommentCreate,
    responses: { 201: schema.CommentOut },
    handler: async (ctx, { params, body }) =>
      commentView(await models.addComment(ctx, params.name!, params.version!, body.body)),
  }),
  operation({
    id: 'models.setStage',
    method: 'POST',
    path: '/api/v1/models/{name}/{version}/stage',
    summary: 'Move a version to None, Staging or Archived.',
    access: tenant('STAGING_PROMOTE'),
    audit: 'model.set_stage',
    body: schema.StageChange,
    responses: { 200: schema.VersionOut },
    errors: { 400: 'Production is reached through a promotion (detail.allowed).' },
    handler: async (ctx, { params, body }) =>
      versionView(await models.setVersionStage(ctx, params.name!, params.version!, body)),
  }),
  operation({
    id: 'models.deleteVersion',
    method: 'DELETE',
    path: '/api/v1/models/{name}/{version}',
    summary: 'Delete a version.',
    access: tenant('MODEL_REGISTER'),
    audit: 'model.delete_version',
    responses: { 204: null },
    errors: { 409: inUse },
    handler: (ctx, { params }) => models.removeVersion(ctx, params.name!, params.version!),
  }),
]
