import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { eventually } from '../../../test/harness.ts'
import { startBucket } from '../../adapters/external-sources/source-server.fixture.ts'
import { transaction } from '../../platform/db/transaction.ts'
import {
  createDraft,
  digestOf as digest,
  makeImage,
  openUpload,
  postFile,
  putChunk,
  syncPath,
} from './followed-datasets.fixture.ts'
import { addWeb, developer, filesOf, scene, useSyncScene, web } from './sync-scene.fixture.ts'

useSyncScene(600)

const settled = (dataset: string) =>
  eventually(async () => {
    const { body } = await developer.get(`/api/v1/datasets/${dataset}`)
    return ['READY', 'INVALID', 'DRAFT'].includes(body.status) && body.validation && body
  }, 150)

describe('POST /api/v1/datasets/{dataset_id}/sync', () => {
  test('202 adds, updates and removes, reads nothing twice, and has the dataset validated', {
    timeout: 300_000,
  }, async () => {
    const images = await Promise.all([makeImage(), makeImage(), makeImage()])
    for (const [i, image] of images.entries()) web.put(`train/cat/${i}.jpg`, image)
    const dataset = await scene.follow(await addWeb(), { delete_missing: true })
    const first = await scene.syncNow(dataset)
    expect(first).toMatchObject({
      state: 'DONE',
      error: null,
      progress: 1,
      counts: { added: 3, updated: 0, removed: 0, failed: 0 },
    })
    expect(Object.keys(await filesOf(dataset))).toEqual(['train/cat/0.jpg', 'train/cat/1.jpg', 'train/cat/2.jpg'])
    expect(await settled(dataset)).toMatchObject({ status: 'READY', file_count: 3, splits: { train: 3 } })
    const { items } = (await developer.get(`/api/v1/datasets/${dataset}/files?origin=sync`)).body
    expect(items).toHaveLength(3)

    web.sent.length = 0
    const newer = await makeImage()
    web.put('train/cat/0.jpg', newer)
    web.files.delete('train/cat/1.jpg')
    web.put('train/dog/3.jpg', await makeImage())
    const second = await scene.syncNow(dataset)
    expect(second.counts).toMatchObject({ added: 1, updated: 1, removed: 1, skipped: 1, unchanged: 1, failed: 0 })
    expect(web.sent.sort()).toEqual(['train/cat/0.jpg', 'train/dog/3.jpg'])
    const files = await filesOf(dataset)
    expect(Object.keys(files)).toEqual(['train/cat/0.jpg', 'train/cat/2.jpg', 'train/dog/3.jpg'])
    expect(files['train/cat/0.jpg']).toBe(digest(newer))
    expect(await settled(dataset)).toMatchObject({ status: 'READY', file_count: 3 })
  })

  test('202 with dry_run tells everything and changes nothing', async () => {
    web.put('a.txt', 'a')
    web.put('b.txt', 'b')
    const dataset = await scene.follow(await addWeb(), { delete_missing: true })
    await scene.syncNow(dataset)
    web.put('c.txt', 'c')
    web.files.delete('a.txt')
    const before = await filesOf(dataset)
    const told = await scene.syncNow(dataset, '?dry_run=true')
    expect(told).toMatchObject({ state: 'DONE', dry_run: true, counts: { added: 1, removed: 1 } })
    expect(await scene.outcomes(dataset, told.run_id)).toMatchObject([
      { path: 'a.txt', action: 'remove' },
      { path: 'b.txt', action: 'update', reason: 'only reading it tells whether it changed' },
      { path: 'c.txt', action: 'add' },
    ])
    expect(await filesOf(dataset)).toEqual(before)
  })

  test('keeps what the source no longer has unless it is to be removed', async () => {
    web.put('a.txt', 'a')
    web.put('b.txt', 'b')
    const dataset = await scene.follow(await addWeb())
    await scene.syncNow(dataset)
    web.files.delete('a.txt')
    expect((await scene.syncNow(dataset)).counts).toMatchObject({ removed: 0 })
    expect(Object.keys(await filesOf(dataset))).toEqual(['a.txt', 'b.txt'])
  })

  test('takes a folder and what fits the patterns alone; names that are no paths are left out with the reason', async () => {
    for (const path of ['in/a.jpg', 'in/sub/b.jpg', 'in/c.txt', 'out/d.jpg', 'in/.DS_Store', 'in/x\\y.jpg'])
      web.put(path, path)
    const dataset = await scene.follow(await addWeb(), { prefix: '/in/', include: ['**/*.jpg'] })
    const { run_id, counts } = await scene.syncNow(dataset)
    expect(Object.keys(await filesOf(dataset))).toEqual(['a.jpg', 'sub/b.jpg'])
    expect(counts).toMatchObject({ added: 2, skipped: 1 })
    expect(await scene.outcomes(dataset, run_id, '?action=skip')).toMatchObject([
      { path: 'x\\y.jpg', reason: expect.stringContaining('backslash') },
    ])
  })

  test('never overwrites an uploaded file', async () => {
    web.put('mine.txt', 'theirs')
    const dataset = await scene.follow(await addWeb(), { delete_missing: true })
    await postFile(developer, dataset, 'mine.txt', 'mine')
    const { counts } = await scene.syncNow(dataset)
    expect(counts).toMatchObject({ added: 0, skipped: 1 })
    expect(await filesOf(dataset)).toEqual({ 'mine.txt': digest('mine') })
  })

  test('of a bucket works alike, and a changed place is not mistaken for the old one', {
    timeout: 300_000,
  }, async () => {
    const bucket = await startBucket('pictures', { id: 'A', secret: 's' })
    for (let i = 0; i < 1100; i++) bucket.put(`one/${i}.txt`, `file ${i % 50}`)
    bucket.put('two/0.txt', 'file 0')
    const config = { bucket: 'pictures', endpoint: bucket.url }
    const source = await scene.addSource('s3', config, { access_key_id: 'A', secret_access_key: 's' })
    const dataset = await scene.follow(source, { prefix: 'one' })
    expect((await scene.syncNow(dataset)).counts).toMatchObject({ added: 1100, failed: 0 })
    bucket.sent.length = 0
    expect((await scene.syncNow(dataset)).counts).toMatchObject({ added: 0, updated: 0, unchanged: 1100, bytes: 0 })
    expect(bucket.sent).toEqual([])
    await developer.put(syncPath(dataset), { source_id: source, prefix: 'two' })
    expect((await scene.syncNow(dataset)).counts).toMatchObject({ updated: 0, unchanged: 1, bytes: 6 })
    await bucket.close()
  })

  test('of a directory works alike, links that lead out left aside', async () => {
    const folder = join(scene.folder, 'pictures')
    await mkdir(join(folder, 'a'), { recursive: true })
    await writeFile(join(folder, 'a/1.txt'), 'one')
    const dataset = await scene.follow(await scene.addSource('directory', { path: folder }))
    expect((await scene.syncNow(dataset)).counts).toMatchObject({ added: 1 })
    expect((await scene.syncNow(dataset)).counts).toMatchObject({ added: 0, unchanged: 1, bytes: 0 })
    await writeFile(join(folder, 'a/1.txt'), 'two')
    expect((await scene.syncNow(dataset)).counts).toMatchObject({ updated: 1 })
    expect(await filesOf(dataset)).toEqual({ 'a/1.txt': digest('two') })
  })

  test('409 with the reason: no source, frozen, running, an upload being assembled', { timeout: 300_000 }, async () => {
    const reasonOf = async (dataset: string) => (await developer.post(syncPath(dataset))).body.detail?.reason
    const lone = await createDraft(developer)
    expect(await reasonOf(lone)).toBe('no_source')
    web.put('a.jpg', await makeImage())
    const dataset = await scene.follow(await addWeb())
    await scene.syncNow(dataset)
    await settled(dataset)
    expect((await developer.post(`/api/v1/datasets/${dataset}:freeze`)).status).toBe(200)
    expect(await reasonOf(dataset)).toBe('dataset_frozen')
    expect((await developer.put(syncPath(dataset), { source_id: null })).body.detail.reason).toBe('dataset_frozen')

    const assembling = await scene.follow(await addWeb())
    const upload = await openUpload(developer, assembling)
    await putChunk(developer, assembling, upload)
    await transaction(scene.platform.services.db, 'system', (tx) =>
      tx.updateTable('datasetUploads').set({ state: 'assembling' }).where('id', '=', upload).execute(),
    )
    expect(await reasonOf(assembling)).toBe('upload_assembling')
  })
})

describe('while a sync runs', () => {
  test('409 sync_running for every upload, freeze and second sync; DELETE ends it and keeps what was good', {
    timeout: 300_000,
  }, async () => {
    for (let i = 0; i < 150; i++) web.put(`${String(i).padStart(3, '0')}.txt`, `file ${i}`)
    web.put('zzz.bin', 'x'.repeat(1000))
    web.mischief.set('zzz.bin', 'stall')
    const dataset = await scene.follow(await addWeb())
    const upload = await openUpload(developer, dataset)
    const { run_id } = (await developer.post(syncPath(dataset))).body
    await eventually(async () => web.sent.includes('zzz.bin'), 150)
    expect((await developer.get(`/api/v1/datasets/${dataset}`)).body.status).toBe('SYNCING')
    const refused = [
      await postFile(developer, dataset, 'a.txt', 'a'),
      await putChunk(developer, dataset, upload),
      await developer.post(`/api/v1/datasets/${dataset}/uploads`, { filename: 'a', size: 1 }),
      await developer.post(syncPath(dataset)),
      await developer.post(`${syncPath(dataset)}?dry_run=true`),
      await developer.put(syncPath(dataset), { source_id: null }),
    ]
    for (const { status, body } of refused) expect([status, body.detail?.reason]).toEqual([409, 'sync_running'])
    expect((await developer.post(`/api/v1/datasets/${dataset}:freeze`)).body.detail.reason).toBe('syncing')
    await eventually(async () => (await developer.get(syncPath(dataset))).body.message === '150 of 151 objects', 150)
    expect((await developer.delete(syncPath(dataset))).status).toBe(200)
    expect(await scene.ended(dataset, run_id)).toMatchObject({ state: 'CANCELED', counts: { added: 150 } })
    expect((await developer.delete(syncPath(dataset))).body.detail.reason).toBe('not_running')
    expect(Object.keys(await filesOf(dataset))).toHaveLength(150)
    expect((await putChunk(developer, dataset, upload)).status).toBe(200)
  })

  test('the dataset can be deleted, and the sync goes with it', async () => {
    web.put('a.bin', 'x'.repeat(1000))
    web.mischief.set('a.bin', 'stall')
    const dataset = await scene.follow(await addWeb())
    const { run_id } = (await developer.post(syncPath(dataset))).body
    await eventually(async () => web.sent.includes('a.bin'), 150)
    expect((await developer.delete(`/api/v1/datasets/${dataset}?force=true`)).status).toBe(204)
    await eventually(
      () =>
        transaction(scene.platform.services.db, 'system', async (tx) => {
          const run = await tx.selectFrom('runs').select('state').where('id', '=', run_id).executeTakeFirst()
          return run?.state === 'canceled'
        }),
      150,
    )
  })
})
