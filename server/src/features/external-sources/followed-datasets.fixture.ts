import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'

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

export interface SyncScene {
  platform: TestPlatform
  admin: TestClient
  developer: TestClient
  /** A folder that sources may be below of. */
  folder: string
  /** Adds a source and gives its id. */
  addSource(kind: string, config: object, credentials?: object): Promise<string>
  /** Makes a draft that follows a source. */
  follow(source: string, config?: object): Promise<string>
  /** The status of a sync that has ended. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  ended(dataset: string, run: string): Promise<any>
  /** Syncs to the end. */
  // biome-ignore lint/suspicious/noExplicitAny: as above
  syncNow(dataset: string, query?: string): Promise<any>
  /** What became of the objects. */
  // biome-ignore lint/suspicious/noExplicitAny: as above
  outcomes(dataset: string, run: string, query?: string): Promise<any[]>
  stop(): Promise<void>
}

export const syncPath = (dataset: string) => `/api/v1/datasets/${dataset}/sync`

/** A platform whose sources may be on loopback and are given up after so many silent seconds. */
export async function startSyncScene(silenceSeconds: number): Promise<SyncScene> {
  const folder = await mkdtemp(join(tmpdir(), 'platform-mlops-syncs-'))
  const platform = await startTestPlatform({
    PLATFORM_MLOPS_SOURCE_FOLDERS: folder,
    PLATFORM_MLOPS_SOURCE_ALLOWED_HOSTS: '127.0.0.1',
    PLATFORM_MLOPS_SOURCE_SILENCE_SECONDS: String(silenceSeconds),
    PLATFORM_MLOPS_MAX_UPLOAD_BYTES: '5000000',
  })
  const admin = await platform.member('default', 'ADMIN')
  const developer = await platform.member('default', 'DEVELOPER')
  let serial = 0
  const ended = (dataset: string, run: string) =>
    eventually(async () => {
      const { body } = await developer.get(syncPath(dataset))
      return body.run_id === run && body.state !== 'RUNNING' && body
    }, 150)
  return {
    platform,
    admin,
    developer,
    folder,
    ended,
    async addSource(kind, config, credentials) {
      const source = { name: `source ${++serial}`, kind, config, credentials }
      return (await admin.post('/api/v1/external-sources', source)).body.id
    },
    async follow(source, config = {}) {
      const dataset = await createDraft(developer, `set ${++serial}`)
      const { status, text } = await developer.put(syncPath(dataset), { source_id: source, ...config })
      if (status !== 200) throw new Error(text)
      return dataset
    },
    async syncNow(dataset, query = '') {
      const { status, body, text } = await developer.post(syncPath(dataset) + query)
      if (status !== 202) throw new Error(text)
      return ended(dataset, body.run_id)
    },
    async outcomes(dataset, run, query = '') {
      return (await developer.get(`${syncPath(dataset)}/runs/${run}/objects${query}`)).body.items
    },
    async stop() {
      await platform.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
