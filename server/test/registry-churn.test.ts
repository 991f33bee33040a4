import { randomInt } from 'node:crypto'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type OciClient, pushBlob, sha256, signedIn } from '../src/features/registry/registry.fixture.ts'
import { sweepBlobs } from '../src/features/registry/sweep.service.ts'
import { heldContents } from '../src/features/registry/sweep.store.ts'
import { sweepContents } from '../src/features/storage/content-sweep.service.ts'
import { startTestPlatform, type TestPlatform } from './harness.ts'
import { type KnownImage, letContentsAge, pushOver, requireWhole } from './registry-images.ts'

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

// A few layers again and again, so that pushes, deletions and sweeps meet on them; large ones travel in batches.
const largeLayers = [0, 1, 2].map((fill) => Buffer.alloc(1_500_000, fill))
const smallLayers = [0, 1, 2, 3].map((n) => Buffer.from(`layer ${n}`))

/** Layers that were in the store long ago and that nothing refers to: the sweep wants them while they are pushed. */
async function leaveOldLayers(): Promise<void> {
  for (const bytes of [...largeLayers, ...smallLayers]) await platform.services.blobs.put(Readable.from([bytes]))
  await letContentsAge(platform.dataDir)
}

const push = (tag: string) =>
  pushOver(client, repository, tag, [largeLayers[randomInt(3)]!, smallLayers[randomInt(4)]!])

test(
  `${seconds} s of pushes, pulls, deletions and sweeps at once: what was acknowledged is whole`,
  async () => {
    await leaveOldLayers()
    const end = Date.now() + seconds * 1000
    const images: KnownImage[] = []
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
        await requireWhole(client, repository, image).catch((error) => {
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
    for (const image of images) await requireWhole(client, repository, image)
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
