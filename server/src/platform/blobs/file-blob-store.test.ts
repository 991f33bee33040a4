import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, open, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { blobStoreSuite } from './blob-store.suite.ts'
import { inBatches, namingFullStorage, writeBatches } from './content-batches.ts'
import { fileBlobStore } from './file-blob-store.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'blobs-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

blobStoreSuite('fileBlobStore', () => fileBlobStore({ folder: join(folder, 'suite') }))

const filesBelow = async (path: string) =>
  (await readdir(path, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())

test('files belong to the owner alone and lie under sha256/ab', async () => {
  const path = join(folder, 'modes')
  const store = await fileBlobStore({ folder: path })
  const { digest } = await store.put(Readable.from([Buffer.from('private')]))
  const file = join(path, 'sha256', digest.slice(7, 9), digest.slice(7))
  expect((await stat(file)).mode & 0o777).toBe(0o400)
  expect((await stat(join(path, 'sha256'))).mode & 0o777).toBe(0o700)
  expect((await stat(join(path, 'tmp'))).mode & 0o777).toBe(0o700)
})

const crashing = `
  import { fileBlobStore } from ${JSON.stringify(new URL('./file-blob-store.ts', import.meta.url).href)}
  const store = await fileBlobStore({ folder: process.argv[1] })
  async function* endless() {
    for (let n = 0; ; n++) {
      yield Buffer.alloc(1 << 20, n)
      if (n === 4) process.stdout.write('writing')
      if (n > 4) await new Promise((resolve) => setTimeout(resolve, 1000))
    }
  }
  await store.put(endless())
`

test('kill -9 in the middle of a put leaves nothing visible, and the next start removes the rest', async () => {
  const path = join(folder, 'crash')
  const child = spawn(process.execPath, ['--input-type=module', '-e', crashing, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  await fileBlobStore({ folder: path })
  expect(await filesBelow(join(path, 'tmp')), 'a living process keeps its files').toHaveLength(1)
  child.kill('SIGKILL')
  await once(child, 'exit')
  expect(await filesBelow(join(path, 'sha256'))).toEqual([])
  await fileBlobStore({ folder: path })
  expect(await filesBelow(join(path, 'tmp'))).toEqual([])
})

test('insufficient_storage says what to do when the device is full', async () => {
  const full = await open('/dev/full', 'w')
  await expect(
    namingFullStorage(() => writeBatches(full, inBatches(Readable.from([Buffer.alloc(10)])))),
  ).rejects.toMatchObject({
    code: 'insufficient_storage',
    message: expect.stringMatching(/larger disk/),
  })
  await full.close()
})

test('insufficient_storage leaves nothing behind on a small file system', async ({ skip }) => {
  const path = join(folder, 'small')
  await mkdir(path)
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'none', path]).status === 0
  if (!mounted) return skip('only a user who may mount can make a small file system')
  try {
    const store = await fileBlobStore({ folder: path })
    const put = store.put(Readable.from([randomBytes(2 << 20), randomBytes(2 << 20), randomBytes(2 << 20)]))
    await expect(put).rejects.toMatchObject({ code: 'insufficient_storage' })
    expect(await filesBelow(path)).toEqual([])
    expect((await store.put(Readable.from([randomBytes(2 << 20)]))).size).toBe(2 << 20)
  } finally {
    spawnSync('umount', [path])
  }
})

const pathOf = (store: string, digest: string) => join(store, 'sha256', digest.slice(7, 9), digest.slice(7))

test.each([10, 2_000_000])('content of %i bytes that is put again counts as used again', async (bytes) => {
  const path = join(folder, 'used')
  const store = await fileBlobStore({ folder: path })
  const content = randomBytes(bytes)
  const { digest } = await store.put(Readable.from([content.subarray(0, 5), content.subarray(5)]))
  const old = new Date('2020-01-01')
  const usedAt = async () => (await stat(pathOf(path, digest))).mtimeMs
  for (const useAgain of [
    () => store.put(Readable.from([content])),
    async () => {
      await writeFile(join(path, 'again'), content)
      await utimes(join(path, 'again'), old, old)
      return store.adopt(join(path, 'again'))
    },
  ]) {
    await utimes(pathOf(path, digest), old, old)
    await useAgain()
    expect(await usedAt()).toBeGreaterThan(Date.now() - 60_000)
  }
})
