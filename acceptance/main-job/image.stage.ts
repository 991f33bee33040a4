import { createHash } from 'node:crypto'
import { type Client, JobError, until } from './client.ts'

type Bar = (fraction: number, text?: string) => void

export interface PulledImage {
  reference: string
  digest: string
  layers: number
  bytes: number
}

/** Starts the build of a model version's image and waits until it is ready. */
export async function buildImage(client: Client, model: { name: string; version: string }, bar: Bar) {
  const { id } = await client.send('POST', '/api/v1/images', { model_name: model.name, version: model.version })
  return until('building the image', 1800, async () => {
    const image = await client.get(`/api/v1/images/${id}`)
    bar(image.progress ?? 0, image.state)
    if (image.state === 'FAILED' || image.state === 'CANCELED')
      throw new JobError(`the image build ended as ${image.state}: ${image.error?.message ?? ''}`)
    return image.state === 'READY' ? image : null
  })
}

interface Descriptor {
  digest: string
  size: number
}

/** Pulls an image by digest from /v2 with a fresh token, checking every byte against its digest; the token is revoked after. */
export async function pullImage(
  client: Client,
  repository: string,
  digest: string,
  bar: Bar,
): Promise<Omit<PulledImage, 'reference'>> {
  const token = await client.send('POST', '/api/v1/registry/tokens', { name: 'main job', expires_in_days: 1 })
  const authorization = `Basic ${Buffer.from(`main-job:${token.token}`).toString('base64')}`
  try {
    const manifestBytes = await pull(client, `/v2/${repository}/manifests/${digest}`, authorization, digest)
    const manifest = JSON.parse(manifestBytes.toString()) as { config: Descriptor; layers: Descriptor[] }
    const blobs = [manifest.config, ...manifest.layers]
    const total = blobs.reduce((sum, blob) => sum + blob.size, 0)
    let bytes = 0
    for (const blob of blobs) {
      await pullBlob(client, `/v2/${repository}/blobs/${blob.digest}`, authorization, blob)
      bytes += blob.size
      bar(bytes / total)
    }
    return { digest, layers: manifest.layers.length, bytes: bytes + manifestBytes.length }
  } finally {
    await client.send('POST', `/api/v1/registry/tokens/${token.id}:revoke`)
  }
}

async function pull(client: Client, path: string, authorization: string, digest: string): Promise<Buffer> {
  const response = await client.fetch(path, { headers: { authorization } })
  const bytes = Buffer.from(await response.arrayBuffer())
  const actual = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
  if (actual !== digest) throw new JobError(`${path}: the bytes have the digest ${actual}`)
  return bytes
}

async function pullBlob(client: Client, path: string, authorization: string, blob: Descriptor): Promise<void> {
  const response = await client.fetch(path, { headers: { authorization } })
  const hash = createHash('sha256')
  let size = 0
  for await (const piece of response.body!) {
    hash.update(piece)
    size += piece.length
  }
  const digest = `sha256:${hash.digest('hex')}`
  if (digest !== blob.digest || size !== blob.size)
    throw new JobError(`${path}: got ${size} bytes with the digest ${digest}`)
}
