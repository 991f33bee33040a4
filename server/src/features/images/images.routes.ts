import { Readable } from 'node:stream'
import { tenant } from '../../platform/http/access.ts'
import { textAnswer } from '../../platform/http/answer.ts'
import { listView } from '../../platform/http/lists.ts'
import { type Operation, operation, raw } from '../../platform/http/operation.ts'
import { listOf } from '../../platform/schema.ts'
import { registryHost } from '../registry/registry.api.ts'
import { checkBuilder } from './builder.check.ts'
import { buildRunView, imageView } from './images.present.ts'
import {
  BuildImageBody,
  BuildLog,
  BuildRun,
  Diagnostics,
  ImageDeleted,
  ImageParams,
  ImageQuery,
  LogQuery,
  ModelCheck,
  ModelCheckQuery,
  ModelImage,
} from './images.schema.ts'
import {
  buildLog,
  cancelBuild,
  checkModelVersion,
  findImages,
  getBuildRun,
  getImage,
  removeImage,
  startBuild,
  tailBuildLog,
} from './images.service.ts'

/** @source service §4.5, contract IM-01…IM-07, PR-54…PR-56 */
export const imageRoutes: Operation[] = [
  operation({
    id: 'images.list',
    method: 'GET',
    path: '/api/v1/images',
    summary: 'Images of model versions, newest first.',
    access: tenant('VIEW'),
    query: ImageQuery,
    responses: { 200: listOf(ModelImage) },
    handler: async (ctx, { query }) => {
      const images = await findImages(ctx, { modelName: query.model_name, version: query.model_version })
      return listView(images.map((image) => imageView(image, registryHost(ctx))))
    },
  }),
  operation({
    id: 'images.build',
    method: 'POST',
    path: '/api/v1/images',
    summary: 'Build the image of a model version and publish it to the registry.',
    access: tenant('DEPLOY'),
    audit: 'image.build',
    body: BuildImageBody,
    responses: { 202: ModelImage },
    errors: { 409: 'An image of this version is being built already (detail.reason build_in_progress).' },
    handler: async (ctx, { body }) => imageView(await startBuild(ctx, body), registryHost(ctx)),
  }),
  operation({
    id: 'images.diagnose',
    method: 'GET',
    path: '/api/v1/images/diagnostics',
    summary: 'What stands in the way of building any image.',
    access: tenant('VIEW'),
    responses: { 200: Diagnostics },
    handler: async (ctx) => {
      const checks = await checkBuilder(ctx)
      return { ok: checks.every(({ ok }) => ok), checks }
    },
  }),
  operation({
    id: 'images.checkModel',
    method: 'GET',
    path: '/api/v1/images/model-check',
    summary: 'What stands in the way of an image of this model version.',
    access: tenant('VIEW'),
    query: ModelCheckQuery,
    responses: { 200: ModelCheck },
    handler: async (ctx, { query }) => {
      const { name, version, issues } = await checkModelVersion(ctx, query.model_name, query.version)
      return { model_name: name, version, ok: issues.length === 0, issues }
    },
  }),
  operation({
    id: 'images.get',
    method: 'GET',
    path: '/api/v1/images/{image_id}',
    summary: 'One image.',
    access: tenant('VIEW'),
    params: ImageParams,
    etag: true,
    responses: { 200: ModelImage },
    handler: async (ctx, { params }) => imageView(await getImage(ctx, params.image_id), registryHost(ctx)),
  }),
  operation({
    id: 'images.delete',
    method: 'DELETE',
    path: '/api/v1/images/{image_id}',
    summary: 'Forget an image; what lies in the registry stays there and may then be deleted.',
    access: tenant('DEPLOY'),
    audit: 'image.delete',
    params: ImageParams,
    responses: { 200: ImageDeleted },
    errors: { 409: 'An endpoint serves it (detail.reason image_in_use), or it is being built (build_in_progress).' },
    handler: async (ctx, { params }) => {
      await removeImage(ctx, params.image_id)
      return { id: params.image_id }
    },
  }),
  operation({
    id: 'images.cancel',
    method: 'POST',
    path: '/api/v1/images/{image_id}:cancel',
    summary: 'Stop a build; the image is CANCELED as soon as it has.',
    access: tenant('DEPLOY'),
    audit: 'image.cancel',
    params: ImageParams,
    responses: { 200: ModelImage },
    errors: { 409: 'The build has ended (detail.reason build_ended).' },
    handler: async (ctx, { params }) => imageView(await cancelBuild(ctx, params.image_id), registryHost(ctx)),
  }),
  operation({
    id: 'images.listRuns',
    method: 'GET',
    path: '/api/v1/images/{image_id}/runs',
    summary: 'The runs that built this image.',
    access: tenant('VIEW'),
    params: ImageParams,
    responses: { 200: listOf(BuildRun) },
    handler: async (ctx, { params }) => {
      const { image, run } = await getBuildRun(ctx, params.image_id)
      return listView([buildRunView(run, image, registryHost(ctx))])
    },
  }),
  operation({
    id: 'images.readLog',
    method: 'GET',
    path: '/api/v1/images/{image_id}/logs',
    summary: 'The last lines of a build log.',
    access: tenant('VIEW'),
    params: ImageParams,
    query: LogQuery,
    responses: { 200: BuildLog },
    handler: async (ctx, { params, query }) => {
      const { run } = await getBuildRun(ctx, params.image_id, query.run_id)
      return { run_id: run.id, state: run.state, ...(await tailBuildLog(ctx, run.id)) }
    },
  }),
  operation({
    id: 'images.downloadLog',
    method: 'GET',
    path: '/api/v1/images/{image_id}/logs/raw',
    summary: 'A whole build log.',
    access: tenant('VIEW'),
    params: ImageParams,
    query: LogQuery,
    responses: { 200: raw('text/plain', 'The log, a line each.') },
    handler: async (ctx, { params, query }) => {
      const { run } = await getBuildRun(ctx, params.image_id, query.run_id)
      return textAnswer(Readable.from(buildLog(ctx, run.id)), { filename: `image-${params.image_id}.log` })
    },
  }),
]
