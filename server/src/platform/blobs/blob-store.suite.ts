import { createHash, randomBytes } from 'node:crypto'
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { BlobStore } from './blob-store.ts'

const digestOf = (bytes: Uint8Array) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`

async function* inParts(bytes: Uint8Array, partBytes = 65_536) {
  for (let at = 0; at < bytes.length; at += partBytes) yield bytes.subarray(at, at + partBytes)
}

const code = (value: string) => expect.objectContaining({ code: value })

/** What every driver of the blob store must do. @source blob-store.ts */
export function blobStoreSuite(name: string, create: () => Promise<BlobStore>): void {
  describe(`${name} as a blob store`, () => {
    let store: BlobStore
    let folder: string
    const large = randomBytes(3 * 1024 * 1024 + 17)

    beforeAll(async () => {
      store = await create()
      folder = await store.temporaryFolder('suite')
    })
    afterAll(() => rm(folder, { recursive: true, force: true }))

    test.each([0, 1, 65_536, 1_048_576, 1_048_577, 3_145_745])(
      'put keeps %i bytes and open gives them back',
      async (n) => {
        const bytes = large.subarray(0, n)
        const info = await store.put(inParts(bytes))
        expect(info).toEqual({ digest: digestOf(bytes), size: n })
        expect(await store.stat(info.digest)).toEqual(info)
        expect((await buffer(await store.open(info.digest))).equals(bytes)).toBe(true)
      },
    )

    test('put takes any sizes of parts, also thousands of single bytes', async () => {
      const bytes = randomBytes(5000)
      expect((await store.put(inParts(bytes, 1))).digest).toBe(digestOf(bytes))
    })

    test('the same content put at once by many is the same blob', async () => {
      const bytes = randomBytes(2_000_000)
      const infos = await Promise.all(Array.from({ length: 8 }, () => store.put(inParts(bytes))))
      expect(new Set(infos.map((info) => info.digest))).toEqual(new Set([digestOf(bytes)]))
      expect((await buffer(await store.open(digestOf(bytes)))).equals(bytes)).toBe(true)
    })

    test.each([100, 2_000_000])('bad_request: %i bytes of another digest than expected are not kept', async (n) => {
      const bytes = randomBytes(n)
      const expected = digestOf(randomBytes(8))
      await expect(store.put(inParts(bytes), { expected })).rejects.toMatchObject({
        code: 'bad_request',
        detail: { reason: 'digest_mismatch', expected, actual: digestOf(bytes) },
      })
      expect(await store.stat(digestOf(bytes))).toBeNull()
    })

    test.each([100, 2_000_000])('payload_too_large: one byte more than %i is not kept', async (maxBytes) => {
      const bytes = randomBytes(maxBytes + 1)
      await expect(store.put(inParts(bytes), { maxBytes })).rejects.toEqual(code('payload_too_large'))
      expect(await store.stat(digestOf(bytes))).toBeNull()
      expect((await store.put(inParts(bytes.subarray(1)), { maxBytes })).size).toBe(maxBytes)
    })

    test('a source that breaks half-way leaves nothing', async () => {
      const bytes = randomBytes(2_000_000)
      async function* broken() {
        yield* inParts(bytes)
        throw new Error('the client went away')
      }
      await expect(store.put(broken())).rejects.toThrow('the client went away')
      expect(await store.stat(digestOf(bytes))).toBeNull()
    })

    test('an abort ends a put that waits for a silent source', async () => {
      const bytes = randomBytes(2_000_000)
      async function* silent() {
        yield* inParts(bytes)
        await sleep(60_000, undefined, { ref: false })
      }
      await expect(store.put(silent(), { signal: AbortSignal.timeout(50) })).rejects.toThrow(/aborted/)
      expect(await store.stat(digestOf(bytes))).toBeNull()
    })

    test('open gives any range, both ends included', async () => {
      const { digest } = await store.put(inParts(large))
      for (const [start, end] of [
        [0, 0],
        [5, 1_100_000],
        [large.length - 1, large.length - 1],
      ] as const) {
        const bytes = await buffer(await store.open(digest, { start, end }))
        expect(bytes.equals(large.subarray(start, end + 1))).toBe(true)
      }
    })

    test('a reader gives any part, less at the end, and ends well after a deletion', async () => {
      const bytes = randomBytes(1_100_000)
      const { digest } = await store.put(inParts(bytes))
      const reader = await store.reader(digest)
      await store.delete(digest)
      expect(reader.size).toBe(bytes.length)
      const into = Buffer.alloc(1000)
      expect(await reader.read(into, 500)).toBe(1000)
      expect(into.equals(bytes.subarray(500, 1500))).toBe(true)
      expect(await reader.read(into, bytes.length - 10)).toBe(10)
      expect(into.subarray(0, 10).equals(bytes.subarray(-10))).toBe(true)
      expect(await reader.read(into, bytes.length)).toBe(0)
      await reader.close()
    })

    test('what is given away is kept whole, and its memory is given back', async () => {
      const bytes = randomBytes(3_000_000)
      const parts = Array.from({ length: 30 }, (_, n) => new Uint8Array(bytes.subarray(n * 100_000, (n + 1) * 100_000)))
      const pooled = Buffer.from('a part of a larger buffer stays')
      const { digest } = await store.put(
        (async function* () {
          yield* parts
          yield pooled
        })(),
        { owned: true },
      )
      expect(digest).toBe(digestOf(Buffer.concat([bytes, pooled])))
      expect(parts[0]!.length).toBe(0)
      expect(pooled.toString()).toBe('a part of a larger buffer stays')
    })

    test('not_found for a digest that is not there; stat says null and delete does not mind', async () => {
      const digest = digestOf(randomBytes(8))
      await expect(store.open(digest)).rejects.toEqual(code('not_found'))
      await expect(store.reader(digest)).rejects.toEqual(code('not_found'))
      await expect(store.materialise(digest, join(folder, 'none'))).rejects.toEqual(code('not_found'))
      expect(await store.stat(digest)).toBeNull()
      await store.delete(digest)
    })

    test.each([
      '',
      'sha256:',
      'sha256:../../../etc/passwd',
      `sha512:${'0'.repeat(64)}`,
      `sha256:${'A'.repeat(64)}`,
      `sha256:${'0'.repeat(64)}\n`,
    ])('bad_request for the malformed digest %j everywhere', async (digest) => {
      await expect((async () => store.open(digest))()).rejects.toEqual(code('bad_request'))
      await expect((async () => store.stat(digest))()).rejects.toEqual(code('bad_request'))
      await expect((async () => store.delete(digest))()).rejects.toEqual(code('bad_request'))
      await expect((async () => store.materialise(digest, join(folder, 'bad')))()).rejects.toEqual(code('bad_request'))
      await expect((async () => store.put(inParts(large), { expected: digest }))()).rejects.toEqual(code('bad_request'))
    })

    test('delete removes; a reader that has begun still ends well', async () => {
      const { digest } = await store.put(inParts(large))
      const reader = await store.open(digest)
      await store.delete(digest)
      expect(await store.stat(digest)).toBeNull()
      expect((await buffer(reader)).equals(large)).toBe(true)
    })

    test('list tells of every blob when it was used last, and use is a use', async () => {
      const { digest } = await store.put(inParts(randomBytes(70_000)))
      const find = async () => {
        for await (const batch of store.list()) {
          const found = batch.find((blob) => blob.digest === digest)
          if (found) return found
        }
        return null
      }
      const first = await find()
      expect(first).toMatchObject({ digest, size: 70_000 })
      await sleep(20)
      expect(await store.use(digest)).toEqual({ digest, size: 70_000 })
      expect((await find())!.usedAt.getTime()).toBeGreaterThan(first!.usedAt.getTime())
      await store.delete(digest)
      expect(await store.use(digest)).toBeNull()
      expect(await find()).toBeNull()
    })

    test('deleteUnused leaves what was used since and what is not there', async () => {
      const bytes = randomBytes(70_000)
      const { digest } = await store.put(inParts(bytes))
      expect(await store.deleteUnused(digest, new Date(Date.now() - 60_000))).toBe(false)
      expect((await buffer(await store.open(digest))).equals(bytes)).toBe(true)
      expect(await store.deleteUnused(digest, new Date(Date.now() + 60_000))).toBe(true)
      expect(await store.stat(digest)).toBeNull()
      expect(await store.deleteUnused(digest, new Date(Date.now() + 60_000))).toBe(false)
    })

    test('content that is put while it is removed is there whenever put says so', async () => {
      const bytes = randomBytes(1000)
      const digest = digestOf(bytes)
      await store.put(inParts(bytes))
      for (let round = 0; round < 60; round++) {
        await sleep(30)
        // Clocks of file systems lag by a few milliseconds.
        const before = new Date(Date.now() - 15)
        await Promise.all([store.deleteUnused(digest, before), store.put(inParts(bytes))])
        expect((await buffer(await store.open(digest))).equals(bytes)).toBe(true)
      }
    })

    test.each([undefined, 'known'])('adopt takes over a file (digest %s) and leaves no second copy', async (known) => {
      const bytes = randomBytes(100_000)
      const path = join(folder, `adopted-${known}`)
      for (let time = 0; time < 2; time++) {
        await writeFile(path, bytes)
        const info = await store.adopt(path, known ? { digest: digestOf(bytes) } : {})
        expect(info).toEqual({ digest: digestOf(bytes), size: bytes.length })
        await expect(stat(path)).rejects.toMatchObject({ code: 'ENOENT' })
      }
      expect((await buffer(await store.open(digestOf(bytes)))).equals(bytes)).toBe(true)
    })

    test('bad_request: adopt refuses another digest than expected and leaves the file', async () => {
      const path = join(folder, 'refused')
      await writeFile(path, 'content')
      await expect(store.adopt(path, { expected: digestOf(large) })).rejects.toEqual(code('bad_request'))
      expect(await readFile(path, 'utf8')).toBe('content')
    })

    test('materialise makes a read-only file, again when asked again', async () => {
      const { digest } = await store.put(inParts(large))
      const path = join(folder, 'materialised')
      await store.materialise(digest, path)
      await store.materialise(digest, path)
      expect((await readFile(path)).equals(large)).toBe(true)
      expect((await stat(path)).mode & 0o222).toBe(0)
    })

    test('check passes on a store that can be written', () => store.check())
  })
}
