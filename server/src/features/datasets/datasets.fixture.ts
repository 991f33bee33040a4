import sharp from 'sharp'
import { ZipFile } from 'yazl'
import { type CallOptions, eventually, type TestClient } from '../../../test/harness.ts'

/** What the tests of datasets send, and how. */

/** A noisy image, each other than all before. */
export function makeImage({ width = 40, height = 30 } = {}): Promise<Buffer> {
  const noise = { type: 'gaussian', mean: 128, sigma: 40 } as const
  return sharp({ create: { width, height, channels: 3, background: '#000', noise } })
    .jpeg()
    .toBuffer()
}

export async function makeZip(files: Record<string, Buffer | string>): Promise<Buffer> {
  const archive = new ZipFile()
  for (const [name, content] of Object.entries(files)) archive.addBuffer(Buffer.from(content as string), name)
  archive.end()
  return Buffer.concat(await Array.fromAsync(archive.outputStream as AsyncIterable<Buffer>))
}

/** Three images of two classes in two splits, in a wrapping folder. */
export async function makeFlowers(): Promise<Record<string, Buffer>> {
  const files: Record<string, Buffer> = {}
  for (const split of ['train', 'test'])
    for (const name of ['daisy', 'iris'])
      for (let i = 0; i < 3; i++) files[`flowers/${split}/${name}/${i}.jpg`] = await makeImage()
  return files
}

export async function createDraft(client: TestClient, name = 'flowers'): Promise<string> {
  return (await client.post('/api/v1/datasets/drafts', { name })).body.id
}

export function putChunk(client: TestClient, dataset: string, upload: string, index: number, bytes: Uint8Array) {
  const headers = { 'content-type': 'application/octet-stream' }
  return client.call('PUT', `/api/v1/datasets/${dataset}/uploads/${upload}/chunks/${index}`, {
    body: bytes as CallOptions['body'],
    headers,
  })
}

export async function openUpload(client: TestClient, dataset: string, content: Buffer, extra: object = {}) {
  const request = { filename: 'upload.bin', size: content.length, chunk_size: 1000, ...extra }
  const { status, body } = await client.post(`/api/v1/datasets/${dataset}/uploads`, request)
  if (status !== 201) throw new Error(`no session: ${JSON.stringify(body)}`)
  return body as { upload_id: string; chunk_size: number }
}

/** A whole upload in chunks until it is done or failed. */
export async function sendUpload(client: TestClient, dataset: string, content: Buffer, extra: object = {}) {
  const { upload_id: upload, chunk_size: size } = await openUpload(client, dataset, content, extra)
  for (let i = 0; i * size < content.length; i++)
    await putChunk(client, dataset, upload, i, content.subarray(i * size, (i + 1) * size))
  const { status, body } = await client.post(`/api/v1/datasets/${dataset}/uploads/${upload}:complete`)
  if (status !== 202) throw new Error(`not complete: ${JSON.stringify(body)}`)
  return uploadEnded(client, dataset, upload)
}

/** The session, as soon as it is what is waited for. */
export const eventuallyUpload = (
  client: TestClient,
  dataset: string,
  upload: string,
  wanted: (session: { state: string }) => boolean,
) =>
  eventually(async () => {
    const { body } = await client.get(`/api/v1/datasets/${dataset}/uploads/${upload}`)
    return wanted(body) && body
  }, 60)

export const uploadEnded = (client: TestClient, dataset: string, upload: string) =>
  eventuallyUpload(client, dataset, upload, ({ state }) => ['done', 'failed'].includes(state))

/** A dataset of these files, validated. */
export async function uploadDataset(client: TestClient, files: Record<string, Buffer | string>): Promise<string> {
  const id = await createDraft(client)
  const session = await sendUpload(client, id, await makeZip(files), { chunk_size: 1 << 20 })
  if (session.state !== 'done') throw new Error(JSON.stringify(session.error))
  return id
}

export function postFile(client: TestClient, dataset: string, name: string, content: Buffer | string) {
  const body = new FormData()
  body.set('file', new Blob([content as string]), name)
  return client.call('POST', `/api/v1/datasets/${dataset}/files`, { body })
}
