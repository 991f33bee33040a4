import { Readable } from 'node:stream'
import type { TenantCtx } from '../../platform/context.ts'
import { conflict } from '../../platform/errors.ts'
import { Answer, contentDisposition } from '../../platform/http/answer.ts'
import { read } from '../../platform/transaction.ts'
import { exportTotals } from './dataset-versions.store.ts'
import { readSamples } from './datasets.api.ts'
import { getDataset } from './datasets.service.ts'
import { storedZip, storedZipBytes } from './stored-zip.ts'

/**
 * Every file of a frozen dataset as a ZIP, streamed: the same dataset gives the same bytes, anywhere and any time.
 * Throws `conflict` for one that may still change.
 */
export async function exportDataset(ctx: TenantCtx, id: string): Promise<Answer> {
  const dataset = await getDataset(ctx, id)
  if (!dataset.digest)
    throw conflict('Only a frozen dataset can be exported: freeze it first.', { detail: { reason: 'not_frozen' } })
  const totals = await read(ctx, (tx) => exportTotals(tx, ctx.tenant.id, id))
  const body = storedZip(readSamples(ctx, id), (file) => ctx.blobs.open(file.digest))
  return new Answer({
    headers: {
      'content-type': 'application/zip',
      'content-length': String(storedZipBytes(totals)),
      'content-disposition': contentDisposition('attachment', `${id}.zip`),
      'cache-control': 'private, no-cache',
      etag: `"${dataset.digest.replace('sha256:', '')}-zip"`,
    },
    body: Readable.from(body, { objectMode: false }),
  })
}
