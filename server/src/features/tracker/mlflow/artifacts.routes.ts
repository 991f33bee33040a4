import type { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import type { TenantCtx } from '../../../platform/context.ts'
import type { Answer } from '../../../platform/http/answer.ts'
import { contentAnswer } from '../../../platform/http/content.ts'
import { read, transaction } from '../../../platform/transaction.ts'
import { findRegistryVersion } from '../../models/registry.api.ts'
import { folderOfUri } from '../artifact-addresses.api.ts'
import { deleteArtifacts, upsertArtifacts } from '../artifacts.store.ts'
import { cleanPath, refuseRegistryPath, requiredPath } from './artifact-paths.ts'
import { entriesOf, entryView, loadFile } from './artifact-tree.ts'
import { type Fields, optionalText, requiredRunId, requiredText } from './fields.ts'
import { runArtifactUri } from './mlflow.present.ts'
import { doesNotExist, notImplemented } from './mlflow-errors.ts'
import { get, type MlflowRoute } from './mlflow-route.ts'
import { loadRun } from './run-access.ts'

const root = '/api/2.0/mlflow-artifacts'
const files = `${root}/artifacts/{path+}`
const multipart = 'Multipart upload is not supported for the current artifact repository'

async function upload(ctx: TenantCtx, path: string, request: FastifyRequest): Promise<null> {
  const clean = requiredPath(path)
  refuseRegistryPath(clean)
  const content = (request.body as Readable | undefined) ?? request.raw
  const blob = await ctx.blobs.put(content, { maxBytes: ctx.config.maxUploadBytes, owned: true })
  await transaction(ctx, (tx) => upsertArtifacts(tx, ctx.tenant.id, [{ path: clean, ...blob }]))
  return null
}

async function download(ctx: TenantCtx, path: string, request: FastifyRequest): Promise<Answer> {
  const clean = requiredPath(path)
  const { digest, size } = await read(ctx, (tx) => loadFile(tx, ctx, clean))
  const filename = clean.slice(clean.lastIndexOf('/') + 1)
  const content = { digest, size, contentType: 'application/octet-stream', filename, download: true }
  return contentAnswer(ctx.blobs, request, content)
}

async function remove(ctx: TenantCtx, path: string): Promise<null> {
  const clean = requiredPath(path)
  refuseRegistryPath(clean)
  const removed = await transaction(ctx, (tx) => deleteArtifacts(tx, ctx.tenant.id, clean))
  if (removed === 0) throw doesNotExist(`There is no artifact ${clean}`)
  return null
}

async function listRoot(ctx: TenantCtx, fields: Fields) {
  const folder = cleanPath(optionalText(fields, 'path') ?? '')
  const entries = await read(ctx, (tx) => entriesOf(tx, ctx, folder))
  return { files: entries.map((entry) => entryView(entry, '')) }
}

async function listOfRun(ctx: TenantCtx, fields: Fields) {
  const runId = requiredRunId(fields)
  const path = cleanPath(optionalText(fields, 'path') ?? '')
  return read(ctx, async (tx) => {
    const uri = runArtifactUri(ctx, await loadRun(tx, ctx, runId))
    const folder = folderOfUri(ctx, uri)
    const entries = folder === null ? [] : await entriesOf(tx, ctx, path === '' ? folder : `${folder}/${path}`)
    return { root_uri: uri, files: entries.map((entry) => entryView(entry, path)) }
  })
}

/** A file of a run or of a version, for pages that show it. */
async function fileBelow(ctx: TenantCtx, uri: string, fields: Fields, request: FastifyRequest): Promise<Answer> {
  const path = requiredPath(requiredText(fields, 'path'))
  const folder = folderOfUri(ctx, uri)
  if (folder === null) throw doesNotExist(`The artifacts of ${uri} are not kept here`)
  return download(ctx, `${folder}/${path}`, request)
}

async function fileOfVersion(ctx: TenantCtx, fields: Fields, request: FastifyRequest): Promise<Answer> {
  const name = requiredText(fields, 'name')
  const version = requiredText(fields, 'version')
  const { filesUri } = await read(ctx, (tx) => findRegistryVersion(tx, ctx, name, version))
  return fileBelow(ctx, filesUri, fields, request)
}

const refuseMultipart = (step: string): MlflowRoute => ({
  method: 'POST',
  path: `${root}/mpu/${step}/{path+}`,
  needs: 'DEVELOP',
  handler: async () => {
    throw notImplemented(multipart)
  },
})

/** @source contract B10.0, B10.8 */
export const artifactRoutes: MlflowRoute[] = [
  get('/artifacts/list', (ctx, { fields }) => listOfRun(ctx, fields)),
  { method: 'GET', path: `${root}/artifacts`, needs: 'VIEW', handler: (ctx, { fields }) => listRoot(ctx, fields) },
  {
    method: 'GET',
    path: files,
    needs: 'VIEW',
    handler: (ctx, { params, request }) => download(ctx, params['*']!, request),
  },
  {
    method: 'PUT',
    path: files,
    needs: 'DEVELOP',
    handler: (ctx, { params, request }) => upload(ctx, params['*']!, request),
  },
  { method: 'DELETE', path: files, needs: 'DEVELOP', handler: (ctx, { params }) => remove(ctx, params['*']!) },
  ...['create', 'complete', 'abort'].map(refuseMultipart),
  {
    method: 'GET',
    path: '/get-artifact',
    needs: 'VIEW',
    handler: async (ctx, { fields, request }) => {
      const run = await read(ctx, (tx) => loadRun(tx, ctx, requiredRunId(fields)))
      return fileBelow(ctx, runArtifactUri(ctx, run), fields, request)
    },
  },
  {
    method: 'GET',
    path: '/model-versions/get-artifact',
    needs: 'VIEW',
    handler: (ctx, { fields, request }) => fileOfVersion(ctx, fields, request),
  },
]
