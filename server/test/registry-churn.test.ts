import { randomInt } from 'node:crypto'
import { readdir, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  configType,
  layerType,
  manifestType,
  type OciClient,
  pushBlob,
  putManifest,
  sha256,
  signedIn,
} from '../src/features/registry/registry.fixture.ts'
import { sweepBlobs } from '../src/features/registry/sweep.service.ts'
import { heldContents } from '../src/features/registry/sweep.store.ts'
import { sweepContents } from '../src/features/storage/content-sweep.service.ts'
import { startTestPlatform, type TestPlatform } from './harness.ts'

/** Longer runs: `CHURN_SECONDS=300 vitest run server/test/registry-churn.test.ts`. */
const seconds = Number(process.env.CHURN_SECONDS ?? 5)
const repository = 'acme/busy'

let platform: TestPlatform
let client: OciClient
beforeAll(async () => {
  platform = await startTestPlatform()
  await platform.tenant('acme')
  client = await signedIn(platform, await platform.member('acme', 'DEVELOPER'))
})
afterAll(() => platform?.stop())

interface Image {
  digest: string
  blobs: string[]
}

const descriptor = (mediaType: string, bytes: Buffer) => ({ mediaType, digest: sha256(bytes), size: bytes.length })

// A few layers again and again, so that pushes, deletions and sweeps meet on them; large ones travel in batches.
const largeLayers = [0, 1, 2].map((fill) => Buffer.alloc(1_500_000, fill))
const smallLayers = [0, 1, 2, 3].map((n) => Buffer.from(`layer ${n}`))

/** Layers that were in the store long ago and that nothing refers to: the sweep wants them while they are pushed. */
async function leaveOldLayers(): Promise<void> {
  const old = new Date(Date.now() - 86_400_000)
  for (const bytes of [...largeLayers, ...smallLayers]) {
    const { digest } = await platform.services.blobs.put(Readable.from([bytes]))
    const hex = digest.slice('sha256:'.length)
    await utimes(join(platform.dataDir, 'blobs', 'sha256', hex.slice(0, 2), hex), old, old)
  }
}

/** A manifest of its own over layers that others have too; null when a sweep took a layer before it was there. */
async function push(tag: string): Promise<Image | null> {
  const layers = [largeLayers[randomInt(3)]!, smallLayers[randomInt(4)]!]
  const config = Buffer.from(JSON.stringify({ architecture: 'amd64', os: 'linux', config: { Labels: { tag } } }))
  for (const bytes of [...layers, config]) await pushBlob(client, repository, bytes)
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: manifestType,
    config: descriptor(configType, config),
    layers: layers.map((bytes) => descriptor(layerType, bytes)),
  })
  const reply = await putManifest(client, repository, tag, manifest)
  if (reply.status === 404 && reply.body.errors[0].code === 'MANIFEST_BLOB_UNKNOWN') return null
  expect(reply.status, reply.text).toBe(201)
  return { digest: sha256(manifest), blobs: [...layers, config].map(sha256) }
}

async function pull({ digest, blobs }: Image): Promise<void> {
  const read = async (path: string) => {
    const { status, bytes } = await client('GET', `/v2/${repository}/${path}`)
    return [status, sha256(bytes)]
  }
  expect(await read(`manifests/${digest}`)).toEqual([200, digest])
  for (const blob of blobs) expect(await read(`blobs/${blob}`)).toEqual([200, blob])
}

test(
  `${seconds} s of pushes, pulls, deletions and sweeps at once: what was acknowledged is whole`,
  async () => {
    await leaveOldLayers()
    const end = Date.now() + seconds * 1000
    const images: Image[] = []
    const counts = { pushed: 0, outrun: 0, pulled: 0, deleted: 0, sweeps: 0, removed: 0 }
    const again = async (work: (round: number) => Promise<void>) => {
      for (let round = 0; Date.now() < end || round === 0; round++) await work(round)
    }
    const pusher = (worker: number) =>
      again(async (round) => {
        const image = await push(`w${worker}-${round}`)
        if (image) images.push(image)
        counts[image ? 'pushed' : 'outrun']++
      })
    const puller = () =>
      again(async () => {
        const image = images[randomInt(Math.max(1, images.length))]
        if (!image) return void (await new Promise((resolve) => setTimeout(resolve, 20)))
        await pull(image).catch((error) => {
          if (images.includes(image)) throw error
        })
        counts.pulled++
      })
    const deleter = () =>
      again(async () => {
        await new Promise((resolve) => setTimeout(resolve, 20))
        const [image] = images.splice(randomInt(Math.max(1, images.length)), 1)
        if (!image) return
        expect((await client('DELETE', `/v2/${repository}/manifests/${image.digest}`)).status).toBe(202)
        counts.deleted++
      })
    const sweeper = () =>
      again(async () => {
        const { services } = platform
        await sweepBlobs(services, { tenantId: null, dryRun: false, minimumAgeMs: 2000 })
        // Half a minute is longer than any push here stands still between its bytes and their row.
        const swept = await sweepContents(services, [heldContents], { dryRun: false, restMs: 30_000, unheldMs: 0 })
        counts.sweeps++
        counts.removed += swept.removed
      })
    await Promise.all([pusher(0), pusher(1), pusher(2), puller(), puller(), deleter(), sweeper()])
    for (const image of images) await pull(image)
    expect(counts.pushed + counts.outrun).toBeGreaterThan(2)
    expect(counts.sweeps).toBeGreaterThan(0)
    if (process.env.CHURN_SECONDS) console.log(counts)
  },
  (seconds + 120) * 1000,
)

test('one blob pushed by many at once is stored once', async () => {
  const bytes = Buffer.alloc(3_000_000, 'pushed by many')
  const digests = await Promise.all(Array.from({ length: 8 }, () => pushBlob(client, 'acme/once', bytes)))
  const folder = join(platform.dataDir, 'blobs')
  const files = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
  const sizes = await Promise.all(files.map(async (entry) => (await stat(join(entry.parentPath, entry.name))).size))
  expect(new Set(digests)).toEqual(new Set([sha256(bytes)]))
  expect(sizes.filter((size) => size === bytes.length)).toHaveLength(1)
})
