import type { FastifyRequest } from 'fastify'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { notFound } from '../../platform/errors.ts'
import { Answer, contentDisposition } from '../../platform/http/answer.ts'
import { contentAnswer } from '../../platform/http/content.ts'
import { read } from '../../platform/transaction.ts'
import { artifactRootUri, folderOfUri, registryFolder } from '../tracker/artifact-addresses.api.ts'
import { findArtifactFiles } from '../tracker/tracker.api.ts'
import { loadVersion } from './models.service.ts'
import { findFiles, type VersionFile, type VersionRow } from './versions.store.ts'
import { zipSize, zipStream } from './zip-stream.ts'

/** Where an MLflow client finds the files of a version. @source contract B10.8 */
export const versionSource = (ctx: Pick<TenantCtx, 'publicUrl'>, row: VersionRow): string =>
  row.source ?? `${artifactRootUri(ctx)}/${registryFolder}/${row.modelId}/${row.version}`

/**
 * The files a version was registered with. A client may register first and upload afterwards; then they are what
 * lies at the source now.
 */
export async function versionFiles(
  tx: Tx,
  ctx: { tenant: Pick<TenantCtx['tenant'], 'id'>; publicUrl: string },
  row: VersionRow,
): Promise<VersionFile[]> {
  const files = await findFiles(tx, ctx.tenant.id, row.modelId, row.version)
  const folder = files.length === 0 && row.source ? folderOfUri(ctx, row.source) : null
  return folder === null ? files : findArtifactFiles(tx, ctx, folder)
}

/** One file as it is, by range; several as a ZIP made on the way. @source contract B12.5 */
export async function downloadVersion(
  ctx: TenantCtx,
  name: string,
  version: string,
  request: FastifyRequest,
): Promise<Answer> {
  const { row, files } = await read(ctx, async (tx) => {
    const row = await loadVersion(tx, ctx, name, version)
    return { row, files: await versionFiles(tx, ctx, row) }
  })
  const [first, ...others] = files
  if (!first) throw notFound('This version has no files.')
  const stem = `${row.name}-${row.version}`
  if (others.length === 0) return contentAnswer(ctx.blobs, request, singleFile(first, stem))
  const members = files.map((file) => ({ name: file.path, size: file.size, open: () => ctx.blobs.open(file.digest) }))
  return new Answer({
    headers: {
      'content-type': 'application/zip',
      'content-length': String(zipSize(members)),
      'content-disposition': contentDisposition('attachment', `${stem}.zip`),
      'cache-control': 'private, no-cache',
    },
    body: request.method === 'HEAD' ? null : zipStream(members, row.createdAt),
  })
}

function singleFile({ path, digest, size }: VersionFile, stem: string) {
  const extension = /\.\w+$/.exec(path)?.[0] ?? ''
  const contentType = 'application/octet-stream'
  return { digest, size, contentType, filename: `${stem}${extension}`, download: true }
}
