import { mkdir, open, rm } from 'node:fs/promises'
import { dirname, isAbsolute, join, posix } from 'node:path'
import type { TenantCtx } from '../../platform/context.ts'
import { type DatasetSample, readSamples, type TrainableDataset } from '../datasets/datasets.api.ts'

/** Hears how far it is. */
export type StagingReport = (fraction: number, message: string) => void

const atOnce = 16
const indexFlushBytes = 256 * 1024

/** Lays the trainable files of a dataset out below `folder/files` and writes `folder/index.jsonl`; starts from nothing. */
export async function layOut(
  ctx: TenantCtx,
  dataset: TrainableDataset,
  folder: string,
  { signal, report }: { signal: AbortSignal; report: StagingReport },
): Promise<void> {
  await rm(folder, { recursive: true, force: true })
  await mkdir(join(folder, 'files'), { recursive: true, mode: 0o700 })
  const index = await open(join(folder, 'index.jsonl'), 'w', 0o600)
  try {
    const folders = new Set<string>()
    let done = 0
    let lines = ''
    for await (const batch of batches(readSamples(ctx, dataset.id))) {
      signal.throwIfAborted()
      const places = batch.map((sample) => placeOf(folder, sample.path))
      for (const parent of places.map((place) => dirname(place))) {
        if (folders.has(parent)) continue
        await mkdir(parent, { recursive: true, mode: 0o700 })
        folders.add(parent)
      }
      await Promise.all(batch.map((sample, i) => ctx.blobs.materialise(sample.digest, places[i]!)))
      for (const { path, label, split } of batch)
        lines += `${JSON.stringify({ path, label, split: split ?? 'train' })}\n`
      if (lines.length > indexFlushBytes) {
        await index.write(lines)
        lines = ''
      }
      done += batch.length
      report(done / Math.max(done, dataset.fileCount), `${done} of ${dataset.fileCount} files`)
    }
    await index.write(lines)
    // The links are metadata, which a journal keeps in order; the text of the index is not.
    await index.datasync()
  } finally {
    await index.close()
  }
}

/** The samples that have a label, a few at a time. */
async function* batches(samples: AsyncIterable<DatasetSample>): AsyncGenerator<DatasetSample[]> {
  let batch: DatasetSample[] = []
  for await (const sample of samples) {
    if (sample.label === null) continue
    batch.push(sample)
    if (batch.length < atOnce) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}

/** The datasets feature admits no such path; whoever writes into a folder checks all the same. */
function placeOf(folder: string, path: string): string {
  if (isAbsolute(path) || posix.normalize(path) !== path || path.split('/').includes('..'))
    throw new Error(`the dataset holds a file with the unusable path ${JSON.stringify(path)}`)
  return join(folder, 'files', path)
}
