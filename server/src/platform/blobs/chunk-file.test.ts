import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openChunkFile } from './chunk-file.ts'

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
const chunkSize = 2 * 1024 * 1024
const bytes = randomBytes(3 * chunkSize + 1234)
const chunkOf = (index: number) => bytes.subarray(index * chunkSize, (index + 1) * chunkSize)
const send = (content: Uint8Array) =>
  Readable.from(
    (function* () {
      for (let at = 0; at < content.length; at += 60_000) yield content.subarray(at, at + 60_000)
    })(),
  )
const first = { alreadyReceived: false }
const again = { alreadyReceived: true }

let folder: string
let count = 0
const open = async () => {
  const path = join(folder, `upload-${count++}`)
  return { path, file: await openChunkFile(path, { size: bytes.length, chunkSize }) }
}
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'chunks-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test('chunks in any order and in parallel make the file, with its digest and progress', async () => {
  const { path, file } = await open()
  const chunks = await Promise.all([3, 0, 2, 1].map((index) => file.writeChunk(index, send(chunkOf(index)), first)))
  expect(chunks[0]).toEqual({ size: 1234, sha256: sha256(chunkOf(3)) })
  expect(await file.digest()).toBe(`sha256:${sha256(bytes)}`)
  expect((await readFile(path)).equals(bytes)).toBe(true)
  await file.remove()
  expect((await readdir(folder)).filter((name) => path.endsWith(name))).toEqual([])
})

test('opening again after a restart keeps what was there', async () => {
  const { path, file } = await open()
  await file.writeChunk(1, send(chunkOf(1)), first)
  await openChunkFile(path, { size: bytes.length, chunkSize })
  expect((await readFile(path)).subarray(chunkSize, 2 * chunkSize).equals(chunkOf(1))).toBe(true)
  expect((await stat(path)).size).toBe(bytes.length)
})

test('bad_request: a short chunk names the expected length', async () => {
  const { file } = await open()
  await expect(file.writeChunk(0, send(chunkOf(0).subarray(1)), first)).rejects.toMatchObject({
    code: 'bad_request',
    detail: { expected: chunkSize, received: chunkSize - 1 },
  })
})

test.each([first, again])('payload_too_large: a long chunk never touches its neighbour (%o)', async (options) => {
  const { path, file } = await open()
  await file.writeChunk(1, send(chunkOf(1)), first)
  const long = Buffer.concat([chunkOf(0), Buffer.alloc(1)])
  await expect(file.writeChunk(0, send(long), options)).rejects.toMatchObject({ code: 'payload_too_large' })
  expect((await readFile(path)).subarray(chunkSize, 2 * chunkSize).equals(chunkOf(1))).toBe(true)
})

test.each([-1, 4, 0.5])('unprocessable_entity: there is no chunk %d', async (index) => {
  const { file } = await open()
  await expect(file.writeChunk(index, send(chunkOf(0)), first)).rejects.toMatchObject({ code: 'unprocessable_entity' })
})

test('a resend replaces the chunk, and one that fails destroys nothing', async () => {
  const { path, file } = await open()
  const [old, fresh] = [randomBytes(chunkSize), chunkOf(0)]
  const there = async () => (await readFile(path)).subarray(0, chunkSize)
  await file.writeChunk(0, send(old), first)
  await expect(file.writeChunk(0, send(fresh.subarray(5)), again)).rejects.toMatchObject({ code: 'bad_request' })
  expect((await there()).equals(old)).toBe(true)
  expect(await readdir(`${path}.resent`)).toEqual([])
  await file.writeChunk(0, send(fresh), again)
  expect((await there()).equals(fresh)).toBe(true)
})

test('two writes of one chunk at once never mix, and the failing one loses', async () => {
  const { path, file } = await open()
  const order: string[] = []
  const good = file.writeChunk(2, send(chunkOf(2)), { ...first, commit: async () => void order.push('good') })
  const bad = file.writeChunk(2, send(randomBytes(chunkSize - 1)), first)
  await Promise.allSettled([good, bad])
  await expect(bad).rejects.toMatchObject({ code: 'bad_request' })
  expect(order).toEqual(['good'])
  expect((await readFile(path)).subarray(2 * chunkSize, 3 * chunkSize).equals(chunkOf(2))).toBe(true)
})

test('a replacement that was complete when the process died is finished before the digest', async () => {
  const { path, file } = await open()
  for (const index of [0, 1, 2, 3]) await file.writeChunk(index, send(chunkOf(index)), first)
  await file.writeChunk(1, send(chunkOf(1)), again)
  const other = randomBytes(chunkSize)
  await writeFile(join(`${path}.resent`, '1'), other)
  await writeFile(join(`${path}.resent`, 'half.incoming'), 'half')
  const whole = Buffer.concat([chunkOf(0), other, chunkOf(2), chunkOf(3)])
  expect(await file.digest()).toBe(`sha256:${sha256(whole)}`)
})

const crashing = `
  import { openChunkFile } from ${JSON.stringify(new URL('./chunk-file.ts', import.meta.url).href)}
  const file = await openChunkFile(process.argv[1], { size: ${bytes.length}, chunkSize: ${chunkSize} })
  await file.writeChunk(0, (async function* () { yield Buffer.alloc(${chunkSize}, 7) })(), { alreadyReceived: false })
  await file.writeChunk(0, (async function* () {
    yield Buffer.alloc(${chunkSize - 1}, 9)
    yield Buffer.alloc(0)
    process.stdout.write('writing')
    await new Promise((resolve) => setTimeout(resolve, 60_000))
  })(), { alreadyReceived: true })
`

test('kill -9 in the middle of a resend keeps the chunk that was there', async () => {
  const path = join(folder, 'killed')
  const child = spawn(process.execPath, ['--input-type=module', '-e', crashing, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  child.kill('SIGKILL')
  await once(child, 'exit')
  expect((await readFile(path)).subarray(0, chunkSize).equals(Buffer.alloc(chunkSize, 7))).toBe(true)
})
