import { randomInt } from 'node:crypto'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { pack } from 'tar-stream'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type OciClient, ociClient, sha256 } from '../src/features/registry/registry.fixture.ts'
import { sweepRun } from '../src/features/registry/sweep.runs.ts'
import { contentSweep } from '../src/features/storage/content-sweep.runs.ts'
import { transaction } from '../src/platform/db/transaction.ts'
import { startRun } from '../src/platform/runs/runs.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'
import { eventually } from './harness.ts'
import { type KnownImage, letContentsAge, pushOver, requireWhole } from './registry-images.ts'
import { type ServerProcess, startServerProcess } from './server-process.ts'

/** More of them: `CRASH_ROUNDS=100 vitest run server/test/registry-crash.test.ts`. */
const rounds = Number(process.env.CRASH_ROUNDS ?? 3)
const repository = 'default/crash'

let database: TestDatabase
let dataDir: string
let token: string
let server: ServerProcess
let oci: OciClient
beforeAll(async () => {
  database = await createTestDatabase()
  dataDir = await mkdtemp(join(tmpdir(), 'registry-crash-'))
  await start()
})
afterAll(async () => {
  await server?.end('SIGTERM')
  await database?.drop()
  if (dataDir) await rm(dataDir, { recursive: true, force: true })
})

async function start(): Promise<void> {
  server = await startServerProcess(database, dataDir)
  token ??= (await server.admin.post('/api/v1/registry/tokens', { name: 'crash' })).body.token
  oci = ociClient({ url: server.url } as never, token)
}

/** What came of everything that was ever asked for. */
const known = {
  images: new Map<string, KnownImage>(),
  deleted: new Set<string>(),
  /** Asked for when the server died: either way is right, halves are not. */
  open: new Set<string>(),
  imports: [] as { id: string; digest: string }[],
}
let serial = 0

async function pushOne(): Promise<void> {
  const tag = `t${serial++}`
  const image = await pushOver(oci, repository, tag, [Buffer.from(`${tag}: ${'x'.repeat(randomInt(2_000_000))}`)])
  if (!image) throw new Error('a layer went although nothing was old')
  known.images.set(image.digest, image)
}

async function deleteOne(): Promise<void> {
  const digest = [...known.images.keys()].find((candidate) => !known.open.has(candidate))
  if (!digest || known.images.size < 3) return void (await sleep(20))
  known.open.add(digest)
  const { status } = await oci('DELETE', `/v2/${repository}/manifests/${digest}`)
  expect(status).toBe(202)
  known.open.delete(digest)
  known.images.delete(digest)
  known.deleted.add(digest)
}

async function importOne(): Promise<void> {
  const layer = Buffer.alloc(500_000, String(serial++))
  const config = JSON.stringify({ os: 'linux', rootfs: { type: 'layers', diff_ids: [sha256(layer)] }, n: serial })
  const archive = pack()
  archive.entry({ name: 'layer.tar' }, layer)
  archive.entry({ name: 'config.json' }, config)
  archive.entry(
    { name: 'manifest.json' },
    JSON.stringify([{ Config: 'config.json', RepoTags: null, Layers: ['layer.tar'] }]),
  )
  archive.finalize()
  const bytes = (await buffer(archive)) as Buffer<ArrayBuffer>
  const names = { repository: 'imported', tag: `i${serial}`, size_bytes: bytes.length }
  const { id } = (await server.admin.post('/api/v1/registry/imports', names)).body
  await server.admin.call('PATCH', `/api/v1/registry/imports/${id}/chunks`, {
    body: bytes,
    headers: {
      'content-type': 'application/octet-stream',
      'content-range': `bytes 0-${bytes.length - 1}/${bytes.length}`,
    },
  })
  const started = await server.admin.post(`/api/v1/registry/imports/${id}:start`)
  if (started.status === 200) known.imports.push({ id, digest: sha256(layer) })
}

/** While the server is dead: lets everything be old, and both sweeps begin with its next start. */
async function prepareSweeps(): Promise<void> {
  await letContentsAge(dataDir)
  const old = new Date(Date.now() - 2 * 86_400_000)
  await transaction(database, 'system', async (tx) => {
    await tx.updateTable('registryBlobs').set({ touchedAt: old }).execute()
    await tx.updateTable('unheldContents').set({ since: old }).execute()
    for (const kind of [sweepRun, contentSweep(() => [])]) await startRun(tx, { kind: 'system' } as never, kind, null)
  })
}

async function requireTruth(): Promise<void> {
  for (const image of known.images.values()) {
    if (!known.open.has(image.digest)) await requireWhole(oci, repository, image)
  }
  for (const digest of known.deleted) {
    expect((await oci('HEAD', `/v2/${repository}/manifests/${digest}`)).status).toBe(404)
  }
  for (const digest of known.open) {
    const { status } = await oci('HEAD', `/v2/${repository}/manifests/${digest}`)
    if (status === 404) known.images.delete(digest)
    else expect(status).toBe(200)
  }
  known.open.clear()
}

async function requireImports(): Promise<void> {
  for (const { id, digest } of known.imports.splice(0)) {
    const record = await eventually(async () => {
      const { body } = await server.admin.get(`/api/v1/registry/imports/${id}`)
      return ['READY', 'FAILED'].includes(body.status) ? body : null
    }, 60)
    expect(record).toMatchObject({ status: 'READY', error: null })
    const { bytes } = await oci('GET', `/v2/default/imported/blobs/${digest}`)
    expect(sha256(bytes)).toBe(digest)
  }
}

test(
  `${rounds} times kill -9 during pushes, deletions, imports and sweeps: what was acknowledged is whole`,
  async () => {
    for (let round = 0; round < rounds; round++) {
      let isOver = false
      const again = async (work: () => Promise<void>) => {
        // What is asked of a dead server fails, and so does the last of each.
        while (!isOver) await work().catch((error) => void (isOver || expect(error).toBeUndefined()))
      }
      const work = [again(pushOne), again(pushOne), again(deleteOne), again(importOne)]
      await eventually(async () => known.images.size > 3 || null, 60)
      await sleep(randomInt(700))
      isOver = true
      await server.end('SIGKILL')
      await Promise.all(work)
      await prepareSweeps()
      await start()
      await requireTruth()
      await requireImports()
      await pushOne()
    }
    await requireTruth()
    await eventually(async () => (await readdir(join(dataDir, 'blobs', 'removing'))).length === 0)
  },
  (rounds + 1) * 120_000,
)
