import { createHash, randomBytes } from 'node:crypto'
import { appendFile, mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type AppendFiles, appendFiles } from './append-file.ts'

const digestOf = (bytes: Uint8Array) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
const bytes = randomBytes(5_000_000)
const send = (start: number, end: number) => Readable.from([bytes.subarray(start, end)])

let folder: string
let path: string
let files: AppendFiles
let count = 0
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'append-'))
})
beforeEach(() => {
  path = join(folder, `file-${count++}`)
  files = appendFiles()
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test('bodies in order make the file, its digest is at hand, also after a restart', async () => {
  expect(await files.append(path, 0, send(0, 2_000_000))).toBe(2_000_000)
  expect(await files.append(path, 2_000_000, send(2_000_000, 2_000_000))).toBe(2_000_000)
  expect(await files.digest(path, 2_000_000)).toBe(digestOf(bytes.subarray(0, 2_000_000)))
  expect(await files.append(path, 2_000_000, send(2_000_000, 5_000_000))).toBe(5_000_000)
  expect(await files.digest(path, 5_000_000)).toBe(digestOf(bytes))
  expect(await appendFiles().digest(path, 5_000_000)).toBe(digestOf(bytes))
})

test('a process that comes later appends and gives the digest of everything', async () => {
  await files.append(path, 0, send(0, 1000))
  const later = appendFiles()
  await later.append(path, 1000, send(1000, 3000))
  expect(await later.digest(path, 3000)).toBe(digestOf(bytes.subarray(0, 3000)))
})

test('a body that breaks commits nothing', async () => {
  await files.append(path, 0, send(0, 1000))
  async function* broken() {
    yield bytes.subarray(0, 3_000_000)
    throw new Error('gone')
  }
  await expect(files.append(path, 1000, broken())).rejects.toThrow('gone')
  expect((await stat(path)).size).toBe(1000)
  await files.append(path, 1000, send(1000, 2000))
  expect(await files.digest(path, 2000)).toBe(digestOf(bytes.subarray(0, 2000)))
})

test('a commit that fails takes the body back', async () => {
  const commit = async () => {
    throw new Error('no database')
  }
  await expect(files.append(path, 0, send(0, 1000), { commit })).rejects.toThrow('no database')
  expect((await stat(path)).size).toBe(0)
  expect(await files.append(path, 0, send(0, 500))).toBe(500)
  expect(await files.digest(path, 500)).toBe(digestOf(bytes.subarray(0, 500)))
})

test('bytes that a crash left beyond the committed offset are cut off', async () => {
  await files.append(path, 0, send(0, 1000))
  await appendFile(path, 'torn')
  await appendFiles().append(path, 1000, send(1000, 1002))
  expect((await readFile(path)).equals(bytes.subarray(0, 1002))).toBe(true)
})

test('range_not_satisfiable names the offset when more was committed meanwhile', async () => {
  await files.append(path, 0, send(0, 1000))
  await expect(files.append(path, 0, send(0, 10))).rejects.toMatchObject({
    code: 'range_not_satisfiable',
    detail: { offset: 1000 },
  })
})

test('conflict while another body is under way', async () => {
  let finish = () => {}
  const waiting = new Promise<void>((resolve) => {
    finish = resolve
  })
  async function* slow() {
    yield bytes.subarray(0, 10)
    await waiting
  }
  const running = files.append(path, 0, slow())
  await expect(files.append(path, 0, send(0, 10))).rejects.toMatchObject({ code: 'conflict' })
  finish()
  expect(await running).toBe(10)
})

test('payload_too_large and bad_request keep nothing of a body of the wrong length', async () => {
  await expect(files.append(path, 0, send(0, 11), { maxBytes: 10 })).rejects.toMatchObject({
    code: 'payload_too_large',
  })
  await expect(files.append(path, 0, send(0, 11), { expectedBytes: 10 })).rejects.toMatchObject({
    code: 'payload_too_large',
  })
  await expect(files.append(path, 0, send(0, 9), { expectedBytes: 10 })).rejects.toMatchObject({
    code: 'bad_request',
    detail: { expected: 10, received: 9 },
  })
  expect((await stat(path)).size).toBe(0)
})

test('bytes that settle later are known to be durable once asked for, by the process that brought the last of them', async () => {
  await files.append(path, 0, send(0, 3_000_000), { settleLater: true })
  await files.append(path, 3_000_000, send(3_000_000, 5_000_000), { settleLater: true })
  expect(await files.settled(path, 5_000_000)).toBe(true)
  expect(await files.settled(path, 3_000_000), 'another length').toBe(false)
  expect((await readFile(path)).equals(bytes)).toBe(true)
  const later = appendFiles()
  expect(await later.settled(path, 5_000_000), 'a process that knows nothing').toBe(false)
  await expect(later.append(path, 5_000_000, send(0, 10), { maxBytes: 5 })).rejects.toThrow()
  expect(await later.settled(path, 5_000_000), 'and has brought nothing').toBe(false)
})
