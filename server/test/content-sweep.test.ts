import { randomBytes } from 'node:crypto'
import { readdir, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createFeatures } from '../src/app.ts'
import { tokenSigner } from '../src/features/identity/tokens.ts'
import { pushBlob, pushImage, sha256, signedIn } from '../src/features/registry/registry.fixture.ts'
import { sweepContents } from '../src/features/storage/content-sweep.service.ts'
import { holdBlobs } from '../src/platform/db/backup-lock.ts'
import { transaction } from '../src/platform/db/transaction.ts'
import { createMetrics } from '../src/platform/metrics.ts'
import { insertFrozenDataset } from './frozen-dataset.ts'
import { eventually, startTestPlatform, type TestPlatform } from './harness.ts'
import { servedImage } from './served-image.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startTestPlatform()
})
afterAll(() => platform?.stop())

const dayMs = 86_400_000
const holders = () =>
  createFeatures({ config: platform.services.config, signer: tokenSigner(randomBytes(32)), metrics: createMetrics() })
    .map(({ heldDigests }) => heldDigests)
    .filter((heldDigests) => heldDigests !== undefined)
const sweep = (options: { dryRun?: boolean; unheldMs?: number } = {}) =>
  sweepContents(platform.services, holders(), { dryRun: false, unheldMs: 0, ...options })
const put = async (bytes: Buffer) => (await platform.services.blobs.put(Readable.from([bytes]))).digest
const isStored = async (digest: string) => (await platform.services.blobs.stat(digest)) !== null

/** Lets all content look as if it had last been put two days ago. */
async function age(): Promise<void> {
  const old = new Date(Date.now() - 2 * dayMs)
  const folder = join(platform.dataDir, 'blobs', 'sha256')
  for (const name of await readdir(folder, { recursive: true }))
    if (name.length > 64) await utimes(join(folder, name), old, old)
}

async function storedDigests(): Promise<Set<string>> {
  const batches = await Array.fromAsync(platform.services.blobs.list())
  return new Set(batches.flat().map(({ digest }) => digest))
}

/** A dataset, an artifact of a run, a model version and images, built and pushed; returns what they are made of. */
async function fill(code: string, own: string): Promise<Set<string>> {
  const { id: tenantId } = await platform.tenant(code)
  const { services } = platform
  const developer = await platform.member(code, 'DEVELOPER')
  const before = await storedDigests()
  const instead = (label: string, index: number) =>
    Buffer.from(index < 2 ? `both ${label}` : `${own} ${label} ${index}`)
  await insertFrozenDataset(services, tenantId, `data-${code}`, { perClass: 4, instead })
  await servedImage(platform, { name: 'probe', tenantCode: code, description: { note: own } })
  const client = await signedIn(platform, developer)
  await pushImage(client, `${code}/app`, 'v1', own)
  const artifact = await put(Buffer.from(`artifact of ${own}`))
  await transaction(services.db, 'system', (tx) =>
    tx.insertInto('trackerArtifacts').values({ tenantId, path: 'a.txt', digest: artifact, size: 10 }).execute(),
  )
  return new Set([...(await storedDigests())].filter((digest) => !before.has(digest)))
}

async function removeTenant(code: string): Promise<void> {
  const { admin, services } = platform
  const { id } = await transaction(services.db, 'system', (tx) =>
    tx.selectFrom('tenants').select('id').where('code', '=', code).executeTakeFirstOrThrow(),
  )
  const accepted = await admin.post(`/api/v1/settings/tenants/${id}/deletion`, { confirm_code: code })
  expect(accepted.status).toBe(202)
  const ended = await eventually(async () => {
    const { body } = await admin.get(`/api/v1/settings/tenants/deletions/${accepted.body.id}`)
    return ['DONE', 'FAILED'].includes(body.status) ? body : null
  }, 60)
  expect(ended.status, ended.log).toBe('DONE')
}

describe('the sweep of the blob store', () => {
  test('a deleted tenant leaves no content behind, and another keeps all of its own, also what both had', async () => {
    const kept = await fill('stays', 'the one that stays')
    const own = await fill('goes', 'the one that goes')
    expect(own.size).toBeGreaterThan(10)
    await age()
    expect(await sweep()).toMatchObject({ removed: 0, waiting: 0 })
    await removeTenant('goes')
    expect(await sweep({ dryRun: true })).toMatchObject({ removed: own.size })
    expect(await storedDigests()).toEqual(new Set([...kept, ...own]))
    expect(await sweep()).toMatchObject({ removed: own.size, waiting: 0, postponed: false })
    expect(await storedDigests()).toEqual(kept)
    const { blobs } = platform.services
    for (const digest of kept) expect(sha256(await buffer(await blobs.open(digest)))).toBe(digest)
  }, 120_000)

  test('content that nothing refers to goes at the second look, an hour after the first', async () => {
    const digest = await put(randomBytes(100))
    expect(await sweep()).toMatchObject({ removed: 0, waiting: 0 })
    await age()
    const hour = { unheldMs: 3600_000 }
    expect(await sweep(hour)).toMatchObject({ removed: 0, waiting: 1 })
    expect(await sweep(hour)).toMatchObject({ removed: 0, waiting: 1 })
    await transaction(platform.services.db, 'system', (tx) =>
      tx
        .updateTable('unheldContents')
        .set({ since: new Date(Date.now() - dayMs) })
        .execute(),
    )
    expect(await sweep(hour)).toMatchObject({ removed: 1, removedBytes: 100, waiting: 0 })
    expect(await isStored(digest)).toBe(false)
  })

  test('content that was put again in between waits from the start', async () => {
    const bytes = randomBytes(100)
    const digest = await put(bytes)
    await age()
    const hour = { unheldMs: 3600_000 }
    expect(await sweep(hour)).toMatchObject({ waiting: 1 })
    await transaction(platform.services.db, 'system', (tx) =>
      tx
        .updateTable('unheldContents')
        .set({ since: new Date(Date.now() - dayMs) })
        .execute(),
    )
    await put(bytes)
    expect(await sweep(hour)).toMatchObject({ removed: 0, waiting: 0 })
    await age()
    expect(await sweep(hour)).toMatchObject({ removed: 0, waiting: 1 })
    expect(await isStored(digest)).toBe(true)
    expect(await sweep()).toMatchObject({ removed: 1 })
  })

  test('nothing goes while a backup runs', async () => {
    const digest = await put(randomBytes(100))
    await age()
    const backup = new pg.Client({ connectionString: platform.database.ownerUrl })
    await backup.connect()
    try {
      await holdBlobs(backup)
      expect(await sweep()).toMatchObject({ removed: 0, postponed: true })
      expect(await isStored(digest)).toBe(true)
    } finally {
      await backup.end()
    }
    await eventually(async () => (await sweep()).removed === 1)
  })

  test('a layer that only a repository of another tenant has left is not taken with a deleted image', async () => {
    const client = await signedIn(platform, await platform.member('stays', 'DEVELOPER'))
    const loose = await pushBlob(client, 'stays/loose', Buffer.from('linked, though no manifest names it'))
    await age()
    await sweep()
    expect((await client('GET', `/v2/stays/loose/blobs/${loose}`)).status).toBe(200)
  })
})

/** Columns that name content of the blob store; a feature holds each of them. */
const held = [
  'dataset_files.digest',
  'dataset_files.preview_digest',
  'dataset_upload_members.digest',
  'experiments.artifacts (sha256)',
  'model_version_files.digest',
  'registry_blobs.content_digest',
  'registry_manifests.content_digest',
  'tracker_artifacts.digest',
]

/** Columns that sound alike and name something else, or content that another column holds. */
const otherwise: Record<string, string> = {
  'dataset_sync_entries.digest': 'content of the file of the same path',
  'dataset_upload_chunks.sha256': 'a piece of a file that is not content yet',
  'dataset_uploads.sha256': 'what the client announced',
  'datasets.digest': 'of the list of files',
  'experiments.dataset_digest': 'of the list of files',
  'model_images.digest': 'a manifest that a registry repository has and holds keep there',
  'registry_blobs.digest': 'the name clients use',
  'registry_holds.digest': 'keeps a manifest in its repository',
  'registry_manifests.digest': 'the name clients use',
  'registry_references.digest': 'names what its repository has',
  'registry_references.manifest_digest': 'names what its repository has',
  'registry_tags.digest': 'names what its repository has',
  'schema_migrations.checksum': 'of a file of the program',
  'serving_endpoints.image_digest': 'a manifest that holds keep in its repository',
  'serving_replicas.image_digest': 'a manifest that holds keep in its repository',
  'serving_validations.image_digest': 'a manifest that holds keep in its repository',
  'tracker_datasets.digest': 'whatever a client calls its data',
  'tracker_logged_model_metrics.dataset_digest': 'whatever a client calls its data',
  'unheld_contents.digest': 'what nothing holds',
}

test('every column with a digest is known: held by a feature, or no name of content', async () => {
  const client = new pg.Client({ connectionString: platform.database.ownerUrl })
  await client.connect()
  try {
    const { rows } = await client.query<{ name: string }>(`
      select table_name || '.' || column_name as name from information_schema.columns
      where table_schema = 'public' and column_name ~ 'digest|sha256|blob|checksum' order by 1`)
    const unknown = rows.map(({ name }) => name).filter((name) => !held.includes(name) && !(name in otherwise))
    expect(unknown, 'does a feature hold it? see Feature.heldDigests').toEqual([])
  } finally {
    await client.end()
  }
})
