import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { type Client, JobError, until } from './client.ts'

type Bar = (fraction: number, text?: string) => void

export interface Upload {
  id: string
  chunkSize: number
  chunks: number
  size: number
}

const megabyte = 1 << 20

export async function fileSha256(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const piece of createReadStream(path, { highWaterMark: megabyte })) hash.update(piece)
  return hash.digest('hex')
}

/** Opens an upload session with at least eight chunks, so that there is something to interrupt. */
export async function openUpload(client: Client, datasetId: string, path: string): Promise<Upload> {
  const { size } = await stat(path)
  const session = await client.send('POST', `/api/v1/datasets/${datasetId}/uploads`, {
    filename: basename(path),
    size,
    sha256: await fileSha256(path),
    chunk_size: Math.max(16 * 1024, Math.min(32 * megabyte, Math.ceil(size / 8))),
  })
  return { id: session.upload_id, chunkSize: session.chunk_size, chunks: Math.ceil(size / session.chunk_size), size }
}

/** Sends the first chunks and breaks off in the middle of one, as a lost connection would. */
export async function uploadAndBreakOff(
  client: Client,
  datasetId: string,
  upload: Upload,
  path: string,
): Promise<void> {
  const half = Math.floor(upload.chunks / 2)
  for (let index = 0; index < half; index++) await putChunk(client, datasetId, upload, path, index)
  const cut = new AbortController()
  const piece = await readChunk(path, upload, half)
  const body = new ReadableStream<Uint8Array>({
    start: (sink) => sink.enqueue(piece.subarray(0, Math.max(1, piece.length >> 1))),
    pull: () => new Promise((resolve) => setTimeout(resolve, 50)).then(() => cut.abort()),
  })
  const init = {
    method: 'PUT',
    body,
    duplex: 'half',
    signal: cut.signal,
    headers: { 'content-type': 'application/octet-stream' },
  }
  await client.fetch(chunkPath(datasetId, upload, half), init as RequestInit).then(
    () => Promise.reject(new JobError('the interrupted chunk was accepted')),
    (error) => (cut.signal.aborted ? undefined : Promise.reject(error)),
  )
}

/** Asks what arrived and sends only the rest, four chunks at a time. Returns how many were sent. */
export async function resumeUpload(
  client: Client,
  datasetId: string,
  upload: Upload,
  path: string,
  bar: Bar,
): Promise<number> {
  const status = await client.get(`/api/v1/datasets/${datasetId}/uploads/${upload.id}`)
  const received = new Set<number>(status.received)
  const missing = Array.from({ length: upload.chunks }, (_, index) => index).filter((index) => !received.has(index))
  if (missing.length === 0 || missing.length === upload.chunks)
    throw new JobError(`the session says ${received.size} of ${upload.chunks} chunks arrived, which cannot be`)
  let sent = 0
  const queue = [...missing]
  const send = async () => {
    for (let index = queue.shift(); index !== undefined; index = queue.shift()) {
      await putChunk(client, datasetId, upload, path, index)
      bar((received.size + ++sent) / upload.chunks)
    }
  }
  await Promise.all([send(), send(), send(), send()])
  return sent
}

async function putChunk(client: Client, datasetId: string, upload: Upload, path: string, index: number): Promise<void> {
  const body = await readChunk(path, upload, index)
  await client.fetch(chunkPath(datasetId, upload, index), {
    method: 'PUT',
    body,
    headers: { 'content-type': 'application/octet-stream' },
  })
}

const chunkPath = (datasetId: string, upload: Upload, index: number) =>
  `/api/v1/datasets/${datasetId}/uploads/${upload.id}/chunks/${index}`

async function readChunk(path: string, upload: Upload, index: number): Promise<Buffer<ArrayBuffer>> {
  const file = await open(path)
  try {
    const length = Math.min(upload.chunkSize, upload.size - index * upload.chunkSize)
    const { buffer } = await file.read(Buffer.alloc(length), 0, length, index * upload.chunkSize)
    return buffer
  } finally {
    await file.close()
  }
}

/** Completes the upload and waits until its files are registered and validated. */
export async function completeUpload(
  client: Client,
  datasetId: string,
  upload: Upload,
  bar: Bar,
): Promise<{ created: number; skipped: number }> {
  await client.send('POST', `/api/v1/datasets/${datasetId}/uploads/${upload.id}:complete`)
  const result = await until('assembling the upload', 1800, async () => {
    const status = await client.get(`/api/v1/datasets/${datasetId}/uploads/${upload.id}`)
    bar(status.progress ?? 0, status.message ?? '')
    if (status.state === 'failed') throw new JobError(`the upload failed: ${status.error.message}`)
    return status.state === 'done' ? status.result : null
  })
  await until('validation', 1800, async () => {
    const dataset = await client.get(`/api/v1/datasets/${datasetId}`)
    if (dataset.status === 'INVALID')
      throw new JobError(`the dataset is not valid: ${JSON.stringify(dataset.validation?.issues?.slice(0, 3))}`)
    return dataset.status === 'READY' ? dataset : null
  })
  return { created: result.created, skipped: result.skipped.length ?? result.skipped }
}
