import { createHash } from 'node:crypto'
import sharp from 'sharp'
import type { TestClient } from '../../../test/harness.ts'

/** What the tests of syncs do with datasets. */

/** A noisy image, each other than all before. */
export function makeImage(): Promise<Buffer> {
  const noise = { type: 'gaussian', mean: 128, sigma: 40 } as const
  return sharp({ create: { width: 40, height: 30, channels: 3, background: '#000', noise } })
    .jpeg()
    .toBuffer()
}

export async function createDraft(client: TestClient, name = 'flowers'): Promise<string> {
  return (await client.post('/api/v1/datasets/drafts', { name })).body.id
}

export function postFile(client: TestClient, dataset: string, name: string, content: string) {
  const body = new FormData()
  body.set('file', new Blob([content]), name)
  return client.call('POST', `/api/v1/datasets/${dataset}/files`, { body })
}

/** A session for content of one byte; gives its id. */
export async function openUpload(client: TestClient, dataset: string): Promise<string> {
  const { body } = await client.post(`/api/v1/datasets/${dataset}/uploads`, { filename: 'upload.bin', size: 1 })
  return body.upload_id
}

export function putChunk(client: TestClient, dataset: string, upload: string) {
  const headers = { 'content-type': 'application/octet-stream' }
  return client.call('PUT', `/api/v1/datasets/${dataset}/uploads/${upload}/chunks/0`, { body: 'x', headers })
}

/** Path → digest of at most two hundred files. */
export async function filesOf(client: TestClient, dataset: string): Promise<Record<string, string>> {
  const { items } = (await client.get(`/api/v1/datasets/${dataset}/files?page_size=200&sort=name`)).body
  return Object.fromEntries(items.map(({ path, digest }: { path: string; digest: string }) => [path, digest]))
}

export const digestOf = (content: string | Buffer): string =>
  `sha256:${createHash('sha256').update(content).digest('hex')}`
