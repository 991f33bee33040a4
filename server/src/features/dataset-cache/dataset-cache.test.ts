import { createHash } from 'node:crypto'
import { access, mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { insertFrozenDataset } from '../../../test/frozen-dataset.ts'
import { startTestPlatform, type TestPlatform } from '../../../test/harness.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { findTrainableDataset, type TrainableDataset } from '../datasets/datasets.api.ts'
import {
  listDatasetHolders,
  releaseStagedDataset,
  stageDataset,
  stageDatasetInto,
  tidyDatasetCache,
} from './dataset-cache.api.ts'

let platform: TestPlatform
let ctx: TenantCtx
let dataset: TrainableDataset
beforeAll(async () => {
  platform = await startTestPlatform()
  const tenant = await platform.tenant('acme')
  ctx = { ...platform.services, kind: 'tenant', scope: { tenantId: tenant.id }, tenant } as TenantCtx
  await insertFrozenDataset(platform.services, tenant.id, 'colours', { perClass: 8 })
  dataset = (await findTrainableDataset(ctx, 'colours'))!
})
afterAll(() => platform?.stop())

const options = { signal: new AbortController().signal, report: () => {} }
const digestOf = async (path: string) =>
  `sha256:${createHash('sha256')
    .update(await readFile(path))
    .digest('hex')}`

describe('stageDataset', () => {
  test('lays out every file with its content, and an index of them all', async () => {
    const told: number[] = []
    const { root, index } = await stageDataset(ctx, dataset, 'one', { ...options, report: (share) => told.push(share) })
    const lines = (await readFile(index, 'utf8')).trimEnd().split('\n')
    expect(lines).toHaveLength(dataset.fileCount)
    const rows = await transaction(ctx.db, ctx.scope, (tx) =>
      tx.selectFrom('datasetFiles').select(['path', 'digest', 'label', 'split']).orderBy('path').execute(),
    )
    expect(lines.map((line) => JSON.parse(line))).toEqual(rows.map(({ digest: _, ...sample }) => sample))
    for (const { path, digest } of rows) expect(await digestOf(join(root, path))).toBe(digest)
    expect(told.at(-1)).toBe(1)
    expect(told).toEqual(told.toSorted((a, b) => a - b))
  })

  test('does it once per digest, also for two at the same time', async () => {
    const other = { ...dataset, digest: `sha256:${'b'.repeat(64)}` }
    const [a, b] = await Promise.all(['a', 'b'].map((holder) => stageDataset(ctx, other, holder, options)))
    expect(a).toEqual(b)
    const made = (await stat(a!.index)).ino
    expect((await stat((await stageDataset(ctx, other, 'c', options)).index)).ino).toBe(made)
    const names = await readdir(dirname(dirname(a!.root)))
    expect(names.filter((name) => name.includes('unfinished'))).toEqual([])
  })

  test('leaves nothing that looks finished when it is interrupted', async () => {
    const other = { ...dataset, digest: `sha256:${'c'.repeat(64)}` }
    const signal = AbortSignal.abort(new Error('told to end'))
    await expect(stageDataset(ctx, other, 'gone', { ...options, signal })).rejects.toThrow('told to end')
    await expect(access(join(platform.dataDir, 'cache/datasets', `sha256-${'c'.repeat(64)}`))).rejects.toThrow('ENOENT')
    const { index } = await stageDataset(ctx, other, 'again', options)
    expect((await readFile(index, 'utf8')).trimEnd().split('\n')).toHaveLength(dataset.fileCount)
    await releaseStagedDataset(platform.dataDir, 'gone')
    const names = await readdir(join(platform.dataDir, 'cache/datasets'))
    expect(names.filter((name) => name.includes('unfinished'))).toEqual([])
  })

  test('marks the dataset as in use until it is released', async () => {
    await stageDataset(ctx, dataset, 'holder', options)
    expect(await listDatasetHolders(platform.dataDir)).toContain('holder')
    await releaseStagedDataset(platform.dataDir, 'holder')
    expect(await listDatasetHolders(platform.dataDir)).not.toContain('holder')
  })

  test('the files cannot be written through: they are the blob store’s own', async () => {
    const { root } = await stageDataset(ctx, dataset, 'reader', options)
    const [sample] = await transaction(ctx.db, ctx.scope, (tx) =>
      tx.selectFrom('datasetFiles').select(['path']).limit(1).execute(),
    )
    expect((await stat(join(root, sample!.path))).mode & 0o222).toBe(0)
  })
})

/** The same files under another digest, so that each test has an entry of its own. */
const like = (mark: string): TrainableDataset => ({ ...dataset, digest: `sha256:${mark.repeat(64)}` })
const cachePath = '/api/v1/training/cache'
const folderOf = ({ digest }: TrainableDataset) => join(platform.dataDir, 'cache/datasets', digest.replace(':', '-'))

describe('GET /api/v1/training/cache', () => {
  test('200 tells what is laid out, for which dataset of which tenant, and who uses it', async () => {
    const wanted = like('d')
    await stageDataset(ctx, wanted, 'someone', options)
    const { status, body } = await platform.admin.get(cachePath)
    expect(status).toBe(200)
    expect(body.items).toContainEqual({
      digest: wanted.digest,
      datasets: [{ dataset_id: 'colours', tenant: 'acme', name: dataset.name }],
      file_count: dataset.fileCount,
      size_bytes: dataset.sizeBytes,
      in_use_by: ['someone'],
      staged_at: expect.any(String),
      last_used_at: expect.any(String),
    })
    const sum = body.items.reduce((total: number, item: { size_bytes: number }) => total + item.size_bytes, 0)
    expect(body).toMatchObject({ total: body.items.length, size_bytes: sum })
  })

  test('403 for everybody but a global administrator', async () => {
    const owner = await platform.member('acme', 'ADMIN')
    expect((await owner.get(cachePath)).status).toBe(403)
    expect((await owner.delete(cachePath)).status).toBe(403)
  })
})

describe('DELETE /api/v1/training/cache/{dataset_id}', () => {
  test('409 while a training uses it; 200 afterwards; 404 when it is not there', async () => {
    await insertFrozenDataset(platform.services, ctx.tenant.id, 'shapes', { perClass: 3 })
    const wanted = (await findTrainableDataset(ctx, 'shapes'))!
    await stageDataset(ctx, wanted, 'busy', options)
    const path = `${cachePath}/${wanted.id}`
    const refused = await platform.admin.delete(path)
    expect(refused).toMatchObject({ status: 409, body: { detail: { reason: 'in_use', in_use_by: ['busy'] } } })
    expect((await stat(folderOf(wanted))).isDirectory()).toBe(true)
    await releaseStagedDataset(platform.dataDir, 'busy')
    expect((await platform.admin.delete(path)).body).toEqual({ removed: [wanted.digest], kept: [] })
    expect(
      (await readdir(dirname(folderOf(wanted)))).filter((name) => name.startsWith(wanted.digest.replace(':', '-'))),
    ).toEqual([])
    expect((await platform.admin.delete(path)).status).toBe(404)
    // What the cache shared with the blob store is there as ever.
    const { root } = await stageDataset(ctx, wanted, 'next', options)
    expect(await readdir(root)).toEqual(['test', 'train'])
  })
})

describe('DELETE /api/v1/training/cache', () => {
  test('200 clears all but what trainings use, also when they come at the same moment', async () => {
    const kept = like('1')
    const contested = like('2')
    await stageDataset(ctx, kept, 'training', options)
    await stageDataset(ctx, contested, 'gone', options)
    await releaseStagedDataset(platform.dataDir, 'gone')
    const [staged, cleared] = await Promise.all([
      stageDataset(ctx, contested, 'newcomer', options),
      platform.admin.delete(cachePath),
    ])
    expect(cleared.body.kept).toContain(kept.digest)
    expect(cleared.body.removed).not.toContain(kept.digest)
    expect((await readFile(staged.index, 'utf8')).trimEnd().split('\n')).toHaveLength(dataset.fileCount)
    expect(await readdir(staged.root)).toEqual(['test', 'train'])
  })
})

describe('DELETE /api/v1/training/cache/volumes/{name}', () => {
  test('200 removes what an interruption left, 409 while somebody writes there, 404 for anything else', async () => {
    const wanted = like('3')
    const name = (holder: string) => `sha256-${'3'.repeat(64)}.${holder}.unfinished`
    await stageDataset(ctx, wanted, 'writer', options)
    for (const holder of ['writer', 'vanished']) await mkdir(`${folderOf(wanted)}.${holder}.unfinished`)
    const { body } = await platform.admin.get(cachePath)
    expect(body.volumes).toContainEqual({ name: name('vanished'), since: expect.any(String), in_use_by: null })
    expect(body.volumes).toContainEqual({ name: name('writer'), since: expect.any(String), in_use_by: 'writer' })
    const remove = (which: string) => platform.admin.delete(`${cachePath}/volumes/${encodeURIComponent(which)}`)
    expect((await remove(name('vanished'))).body).toEqual({ name: name('vanished') })
    expect((await remove(name('vanished'))).status).toBe(404)
    expect((await remove(name('writer'))).status).toBe(409)
    for (const odd of [`sha256-${'3'.repeat(64)}`, `sha256-${'3'.repeat(64)}.uses`, 'x'])
      expect((await remove(odd)).status, odd).toBe(404)
    expect((await stat(folderOf(wanted))).isDirectory()).toBe(true)
  })
})

describe('tidyDatasetCache', () => {
  test('removes what nobody used for a week and what is no dataset any more, and nothing else', async () => {
    const ids = ['idle', 'used', 'fresh', 'deleted']
    const entries: TrainableDataset[] = []
    for (const [index, id] of ids.entries()) {
      await insertFrozenDataset(platform.services, ctx.tenant.id, id, { perClass: 9 + index })
      entries.push((await findTrainableDataset(ctx, id))!)
    }
    for (const entry of entries) await stageDataset(ctx, entry, `of-${entry.id}`, options)
    for (const id of ['idle', 'fresh', 'deleted']) await releaseStagedDataset(platform.dataDir, `of-${id}`)
    const long = new Date(Date.now() - 8 * 24 * 3600_000)
    for (const entry of entries.slice(0, 2)) {
      const records = `${folderOf(entry)}.datasets`
      for (const path of [folderOf(entry), ...(await readdir(records)).map((name) => join(records, name))])
        await utimes(path, long, long)
    }
    await transaction(ctx.db, ctx.scope, (tx) => tx.deleteFrom('datasets').where('id', '=', 'deleted').execute())
    await tidyDatasetCache({ ...ctx, audit: null })
    const left = await readdir(dirname(folderOf(dataset)))
    const isLeft = ({ digest }: TrainableDataset) => left.includes(digest.replace(':', '-'))
    expect(entries.filter(isLeft).map(({ id }) => id)).toEqual(['used', 'fresh'])
  })
})

describe('stageDatasetInto', () => {
  test('replaces what an interrupted attempt left there', async () => {
    const folder = await platform.services.blobs.temporaryFolder('staging')
    await writeFile(join(folder, 'leftover'), '')
    const { root } = await stageDatasetInto(ctx, dataset, folder, options)
    expect((await readdir(folder)).toSorted()).toEqual(['files', 'index.jsonl'])
    expect((await readdir(root)).toSorted()).toEqual(['test', 'train'])
  })

  test('an escape out of the folder is refused', async () => {
    await transaction(ctx.db, ctx.scope, async (tx) => {
      const [file] = await tx.selectFrom('datasetFiles').selectAll().limit(1).execute()
      const { id: _, ...rest } = file!
      const escaping = { ...rest, id: '00000000-0000-7000-8000-000000000001', path: '../escape.png' }
      await tx.insertInto('datasetFiles').values(escaping).execute()
    })
    const folder = await platform.services.blobs.temporaryFolder('staging')
    await expect(stageDatasetInto(ctx, dataset, folder, options)).rejects.toThrow('unusable path "../escape.png"')
  })
})
