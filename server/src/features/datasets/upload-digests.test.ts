import { createHash, randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type NotedChunk, uploadDigests } from './upload-digests.ts'

let folder: string
let session: { path: string; size: number; chunkSize: number }
const content = randomBytes(3_500_000)
const chunkSize = 1_000_000
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
const part = (index: number, from = content) => from.subarray(index * chunkSize, (index + 1) * chunkSize)
const chunk = (index: number, from = content): NotedChunk => ({ index, sha256: sha256(part(index, from)) })
const whole = [0, 1, 2, 3].map((index) => chunk(index))

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'upload-digests-'))
  session = { path: join(folder, 'content'), size: content.length, chunkSize }
  await writeFile(session.path, Buffer.alloc(content.length))
})
afterEach(() => rm(folder, { recursive: true }))

async function put(index: number, from = content): Promise<void> {
  const file = await open(session.path, 'r+')
  await file.write(part(index, from), 0, undefined, index * chunkSize)
  await file.close()
  uploadDigests.note('id', session, chunk(index, from))
}

describe('uploadDigests', () => {
  test('is the digest of the whole, whatever the order of the chunks', async () => {
    for (const order of [
      [0, 1, 2, 3],
      [3, 2, 1, 0],
      [2, 0, 3, 1],
    ]) {
      for (const index of order) await put(index)
      expect(await uploadDigests.finish('id', whole)).toBe(sha256(content))
    }
  })

  test('is not known when a chunk went elsewhere, or came again with other bytes', async () => {
    for (const index of [0, 1, 3]) await put(index)
    expect(await uploadDigests.finish('id', whole)).toBeNull()
    for (const index of [0, 1, 2, 3]) await put(index)
    const other = randomBytes(content.length)
    expect(await uploadDigests.finish('id', [chunk(0, other), ...whole.slice(1)])).toBeNull()
    for (const index of [0, 1, 2, 3]) await put(index)
    await put(0, other)
    const known = await uploadDigests.finish('id', [chunk(0, other), ...whole.slice(1)])
    // Hashed before or after it was replaced: never anything else than what is there.
    expect([null, sha256(Buffer.concat([part(0, other), content.subarray(chunkSize)]))]).toContain(known)
  })

  test('is not known when a write of a chunk failed after it was noted, or waits for its place', async () => {
    for (const index of [0, 1, 2, 3]) await put(index)
    uploadDigests.noteFailure('id', 2)
    expect(await uploadDigests.finish('id', whole)).toBeNull()
    for (const index of [0, 1, 2, 3]) await put(index)
    await mkdir(`${session.path}.resent`)
    await writeFile(join(`${session.path}.resent`, '1'), part(1))
    expect(await uploadDigests.finish('id', whole)).toBeNull()
  })
})
