import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, get, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sendBlob } from './blob-sender.ts'
import type { BlobReader, BlobStore } from './blob-store.ts'
import { fileBlobStore } from './file-blob-store.ts'

const bytes = randomBytes(5 * 1024 * 1024 + 3)
let folder: string
let store: BlobStore
let server: Server
let digest: string
/** How the answers of the server ended, in order. */
const outcomes: Promise<unknown>[] = []
let closed = 0

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'blob-sender-'))
  store = await fileBlobStore({ folder })
  digest = (await store.put(Readable.from([bytes.subarray(0, 2_000_000), bytes.subarray(2_000_000)]))).digest
  server = createServer(async (request, response) => {
    const [start, length] = request.url!.slice(1).split('-').map(Number) as [number, number]
    response.writeHead(200, { 'content-length': length })
    const sending = sendBlob(response, counted(await store.reader(digest)), { start, length })
    outcomes.push(sending)
    sending.catch(() => response.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
})
afterAll(async () => {
  server.close()
  await rm(folder, { recursive: true, force: true })
})

const counted = (reader: BlobReader): BlobReader => ({
  ...reader,
  close: async () => {
    closed++
    await reader.close()
  },
})

const ask = (start: number, length: number) =>
  fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/${start}-${length}`)

test.each([
  [0, 0],
  [0, 1],
  [7, 1024 * 1024],
  [7, 1024 * 1024 + 1],
  [0, bytes.length],
  [3, bytes.length - 3],
])('from byte %i on, %i bytes arrive as they are, also to several at once', async (start, length) => {
  const parts = await Promise.all(
    [1, 2, 3].map(async () => Buffer.from(await (await ask(start, length)).arrayBuffer())),
  )
  for (const part of parts) expect(part.equals(bytes.subarray(start, start + length))).toBe(true)
})

test('a blob that is shorter than promised breaks the connection, and the reader is closed', async () => {
  closed = 0
  const answer = await ask(bytes.length - 2_000_000, 4_000_000)
  await expect(answer.arrayBuffer()).rejects.toThrow()
  await expect(outcomes.at(-1)).rejects.toThrow(/shorter/)
  expect(closed).toBe(1)
})

test('a client that goes away ends the sending, the reader is closed and others get what is theirs', async () => {
  closed = 0
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/0-${bytes.length}`
  const [answer] = await once(get(url), 'response')
  await once(answer, 'readable')
  answer.destroy()
  await outcomes.at(-1)!.catch(() => undefined)
  await expect.poll(() => closed).toBe(1)
  expect((await buffer((await ask(0, bytes.length)).body!)).equals(bytes)).toBe(true)
})
