import { createHash } from 'node:crypto'
import type { TestClient, TestPlatform } from '../../../test/harness.ts'

export const manifestType = 'application/vnd.oci.image.manifest.v1+json'
export const indexType = 'application/vnd.oci.image.index.v1+json'
export const configType = 'application/vnd.oci.image.config.v1+json'
export const layerType = 'application/vnd.oci.image.layer.v1.tar+gzip'

export const sha256 = (bytes: Uint8Array | string) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
export const sha512 = (bytes: Uint8Array | string) => `sha512:${createHash('sha512').update(bytes).digest('hex')}`

export interface OciReply {
  status: number
  headers: Headers
  bytes: Buffer
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  body: any
}

export interface OciRequest {
  headers?: Record<string, string>
  body?: RequestInit['body']
}

/** A client of the protocol, signed in with one token, or with none. */
export type OciClient = (method: string, path: string, request?: OciRequest) => Promise<OciReply>

export function ociClient(platform: TestPlatform, token: string | null): OciClient {
  const own: Record<string, string> = token
    ? { authorization: `Basic ${Buffer.from(`me:${token}`).toString('base64')}` }
    : {}
  return async (method, path, { headers, body } = {}) => {
    const url = path.startsWith('http') ? path : platform.url + path
    const init: RequestInit & { duplex?: 'half' } = { method, headers: { ...own, ...headers }, redirect: 'manual' }
    if (body !== undefined) Object.assign(init, { body, duplex: 'half' })
    const response = await fetch(url, init)
    const bytes = Buffer.from(await response.arrayBuffer())
    const text = bytes.toString()
    return { status: response.status, headers: response.headers, bytes, text, body: parsed(text) }
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Makes a token through the public interface and signs in with it. */
export async function signedIn(platform: TestPlatform, member: TestClient): Promise<OciClient> {
  const reply = await member.post('/api/v1/registry/tokens', { name: 'test' })
  if (reply.status !== 201) throw new Error(`no token: ${reply.status} ${reply.text}`)
  return ociClient(platform, reply.body.token)
}

export async function pushBlob(client: OciClient, name: string, bytes: Uint8Array): Promise<string> {
  const digest = sha256(bytes)
  const reply = await client('POST', `/v2/${name}/blobs/uploads/?digest=${digest}`, {
    body: bytes as Uint8Array<ArrayBuffer>,
    headers: { 'content-type': 'application/octet-stream' },
  })
  if (reply.status !== 201) throw new Error(`blob: ${reply.status} ${reply.text}`)
  return digest
}

export interface PushedImage {
  digest: string
  manifest: string
  config: { bytes: string; digest: string }
  layer: { bytes: Buffer; digest: string }
}

/** Pushes a small image as clients do: layer, configuration, manifest. */
export async function pushImage(client: OciClient, name: string, tag: string, text = `${name}:${tag}`) {
  const layer = Buffer.from(`layer of ${text}`)
  const config = JSON.stringify({ architecture: 'amd64', os: 'linux', config: { Labels: { text } }, rootfs: {} })
  const descriptor = (mediaType: string, bytes: Uint8Array | string) => ({
    mediaType,
    digest: sha256(bytes),
    size: Buffer.byteLength(bytes),
  })
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: manifestType,
    config: descriptor(configType, config),
    layers: [descriptor(layerType, layer)],
  })
  await pushBlob(client, name, layer)
  await pushBlob(client, name, Buffer.from(config))
  const reply = await putManifest(client, name, tag, manifest)
  if (reply.status !== 201) throw new Error(`manifest: ${reply.status} ${reply.text}`)
  return {
    digest: sha256(manifest),
    manifest,
    config: { bytes: config, digest: sha256(config) },
    layer: { bytes: layer, digest: sha256(layer) },
  } satisfies PushedImage
}

export const putManifest = (
  client: OciClient,
  name: string,
  reference: string,
  manifest: string,
  mediaType = manifestType,
) => client('PUT', `/v2/${name}/manifests/${reference}`, { body: manifest, headers: { 'content-type': mediaType } })
