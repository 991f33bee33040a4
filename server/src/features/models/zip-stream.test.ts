import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ZipMember, zipSize, zipStream } from './zip-stream.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zip-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const member = (name: string, bytes: Buffer): ZipMember => ({
  name,
  size: bytes.length,
  open: async () => Readable.from([bytes]),
})

const python = `
import sys, zipfile, hashlib, json
with zipfile.ZipFile(sys.argv[1]) as z:
    assert z.testzip() is None
    print(json.dumps({i.filename: hashlib.sha256(z.read(i)).hexdigest() for i in z.infolist()}))`
const unpack = (path: string) => JSON.parse(execFileSync('python3', ['-c', python, path], { encoding: 'utf8' }))

test('another program reads every member back, whatever its name and size', async () => {
  const contents = { empty: Buffer.alloc(0), 'a/ü b.bin': randomBytes(200_000), MLmodel: Buffer.from('x') }
  const members = Object.entries(contents).map(([name, bytes]) => member(name, bytes))
  const path = join(folder, 'small.zip')
  let size = 0
  await pipeline(
    zipStream(members, new Date()).on('data', (piece: Buffer) => {
      size += piece.length
    }),
    createWriteStream(path),
  )
  expect(size).toBe(zipSize(members))
  const digests = Object.entries(contents).map(([name, bytes]) => [
    name,
    createHash('sha256').update(bytes).digest('hex'),
  ])
  expect(unpack(path)).toEqual(Object.fromEntries(digests))
})

test('beyond 4 GiB the announced size still fits, and the directory is read', async () => {
  const large = 2 ** 32 + 5
  const zeros = Buffer.alloc(1 << 20)
  async function* content() {
    for (let left = large; left > 0; left -= zeros.length) yield left < zeros.length ? zeros.subarray(0, left) : zeros
  }
  const members = [{ name: 'large', size: large, open: async () => Readable.from(content()) }, member('after', zeros)]
  let size = 0
  let tail = Buffer.alloc(0)
  for await (const piece of zipStream(members, new Date())) {
    size += piece.length
    tail = Buffer.concat([tail, piece]).subarray(-400)
  }
  expect(size).toBe(zipSize(members))
  // The classic end record points to the ZIP64 one.
  expect(tail.includes(Buffer.from('PK\x06\x06'))).toBe(true)
}, 120_000)

test('a file of another length than announced breaks the archive off', async () => {
  const members = [{ ...member('a', Buffer.from('abc')), size: 4 }]
  await expect(
    pipeline(zipStream(members, new Date()), async (source) => {
      for await (const _ of source);
    }),
  ).rejects.toThrow('is 3 bytes long')
})
