import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { BlobStore } from '../../../platform/blobs/blob-store.ts'
import { fileBlobStore } from '../../../platform/blobs/file-blob-store.ts'
import { textFile } from './disk-file.ts'
import { writeLayer } from './layer-blob.ts'
import { fingerprintOf, layerCache } from './layer-cache.ts'
import type { LayerEntry } from './tar-stream.ts'

const entries: LayerEntry[] = [
  textFile('a', 'one'),
  { kind: 'link', path: 'b', target: 'a' },
  { kind: 'folder', path: 'c', mode: 0o755 },
]

let folder: string
let store: BlobStore
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'layer-cache-'))
  store = await fileBlobStore({ folder: join(folder, 'blobs') })
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test('a kept layer is found, also by the next process, as long as the store has it', async () => {
  const index = join(folder, 'index')
  const layer = await writeLayer(store, entries, { compress: true })
  expect(await layerCache(index, store).find('key')).toBeNull()
  await layerCache(index, store).keep('key', layer)
  expect(await layerCache(index, store).find('key')).toEqual(layer)
  expect(await layerCache(index, store).find('other')).toBeNull()
  await store.delete(layer.digest)
  expect(await layerCache(index, store).find('key')).toBeNull()
})

test('a spoiled index file counts as none and is overwritten', async () => {
  const index = join(folder, 'spoiled')
  const cache = layerCache(index, store)
  const layer = await writeLayer(store, entries, { compress: false })
  await cache.keep('key', layer)
  await writeFile(join(index, 'key.json'), '{"digest":')
  expect(await cache.find('key')).toBeNull()
  await cache.keep('key', layer)
  expect(await cache.find('key')).toEqual(layer)
  expect(await readdir(index)).toEqual(['key.json'])
})

test('the fingerprint follows paths, modes, targets and contents, and not the order', () => {
  const [file, link, directory] = entries as [LayerEntry, LayerEntry, LayerEntry]
  const same = fingerprintOf([directory, link, file])
  expect(same).toBe(fingerprintOf(entries))
  const changed = [
    [textFile('a', 'two'), link, directory],
    [textFile('a', 'one', 0o755), link, directory],
    [textFile('a2', 'one'), link, directory],
    [file, { ...link, target: 'c' } as LayerEntry, directory],
    [file, link, { ...directory, mode: 0o700 } as LayerEntry],
    [file, link],
  ]
  expect(new Set([same, ...changed.map(fingerprintOf)]).size).toBe(changed.length + 1)
})

test('a layer whose source fails half-way keeps nothing and passes the reason on', async () => {
  const files = async () =>
    (await readdir(join(folder, 'blobs'), { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
  const before = await files()
  const failing: LayerEntry = { ...textFile('z', 'x'), size: 3_000_000, open: () => failingHalfWay() }
  for (const compress of [true, false]) {
    await expect(writeLayer(store, [failing], { compress })).rejects.toThrow('the disk went away')
  }
  expect(await files()).toEqual(before)
})

const failingHalfWay = () =>
  Readable.from(
    (async function* () {
      yield Buffer.alloc(2_000_000)
      throw new Error('the disk went away')
    })(),
  )
