import { createHash } from 'node:crypto'
import { access, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { insertFrozenDataset } from '../../../test/frozen-dataset.ts'
import { startTestPlatform, type TestPlatform } from '../../../test/harness.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { findTrainableDataset, type TrainableDataset } from '../datasets/datasets.api.ts'
import { listDatasetHolders, releaseStagedDataset, stageDataset, stageDatasetInto } from './dataset-cache.api.ts'

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
