import { existsSync } from 'node:fs'
import { lstat, mkdtemp, readFile, readlink, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { type Header, pack } from 'tar-stream'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { extractTar } from './tar-archive.ts'

type Made = Partial<Header> & { name: string; content?: string | Buffer }

async function makeTar(entries: Made[]): Promise<Buffer> {
  const archive = pack()
  for (const { content, ...header } of entries) {
    if (header.type && header.type !== 'file') archive.entry(header)
    else archive.entry(header, content ?? 'content')
  }
  archive.finalize()
  return buffer(archive)
}

let outer: string
let folder: string
const made: string[] = []
beforeEach(async () => {
  outer = await mkdtemp(join(tmpdir(), 'tar-'))
  made.push(outer)
  folder = await mkdtemp(join(outer, 'root-'))
})
afterAll(() => Promise.all(made.map((path) => rm(path, { recursive: true, force: true }))))

const roomy = { totalBytes: 1e9 }
const inParts = (bytes: Buffer, size = 10_000) =>
  Readable.from(
    (function* () {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
    })(),
  )
const unpack = async (entries: Made[], limits = roomy) => extractTar(inParts(await makeTar(entries)), folder, limits)
const at = (path: string) => join(folder, path)

test.each([
  ['plain', (bytes: Buffer) => bytes],
  ['gzip', gzipSync],
  ['zstd', zstdCompressSync],
])(
  'a %s archive is unpacked with contents, modes and times, however it is cut',
  async (_, compress) => {
    const large = Buffer.alloc(3_000_000, 'large')
    const mtime = new Date('2024-02-03T04:05:06Z')
    const tar = await makeTar([
      { name: './', type: 'directory' },
      { name: './bin/', type: 'directory', mode: 0o755 },
      { name: './bin/run', mode: 0o4755, mtime },
      { name: 'deep/er/large', content: large, mtime },
      { name: `${'long/'.repeat(40)}한글`, content: 'named' },
    ])
    const seen: string[] = []
    for (const size of [511, 100_000]) {
      await extractTar(inParts(compress(tar), size), folder, roomy, { onEntry: (path) => seen.push(path) })
    }
    expect((await readFile(at('deep/er/large'))).equals(large)).toBe(true)
    expect(await readFile(at(`${'long/'.repeat(40)}한글`), 'utf8')).toBe('named')
    expect((await stat(at('bin/run'))).mode & 0o7777).toBe(0o755)
    expect((await stat(at('bin/run'))).mtime).toEqual(mtime)
    expect(seen.slice(0, 3)).toEqual(['', 'bin', 'bin/run'])
  },
  60_000,
)

test('links keep working when they stay inside, absolute ones too', async () => {
  await unpack([
    { name: 'usr/lib/a.so.1', content: 'library' },
    { name: 'usr/lib/a.so', type: 'symlink', linkname: 'a.so.1' },
    { name: 'etc/alternatives/a', type: 'symlink', linkname: '/usr/lib/a.so' },
    { name: 'lib', type: 'symlink', linkname: 'usr/lib' },
    { name: 'up/link', type: 'symlink', linkname: '../usr/../usr/lib/a.so' },
    { name: 'hard', type: 'link', linkname: './usr/lib/a.so.1' },
  ])
  for (const path of ['usr/lib/a.so', 'etc/alternatives/a', 'lib/a.so', 'up/link', 'hard']) {
    expect(await readFile(at(path), 'utf8'), path).toBe('library')
  }
  expect(await readlink(at('etc/alternatives/a'))).toBe('../../usr/lib/a.so')
})

test('an absolute path lands inside the folder', async () => {
  await unpack([{ name: '/etc/inside' }])
  expect(await readFile(at('etc/inside'), 'utf8')).toBe('content')
})

const hostile: [string, string, Made[]][] = [
  ['unsafe_path', 'a way up', [{ name: '../out' }]],
  ['unsafe_path', 'a way up in the middle', [{ name: 'a/../../out' }]],
  ['unsafe_path', 'a link that leads out', [{ name: 'link', type: 'symlink', linkname: '../out' }]],
  ['unsafe_path', 'a deep link that leads out', [{ name: 'a/b/link', type: 'symlink', linkname: '../../../out' }]],
  [
    'unsafe_path',
    'a file written through a link',
    [{ name: 'link', type: 'symlink', linkname: 'elsewhere' }, { name: 'elsewhere/x' }, { name: 'link/file' }],
  ],
  ['unsafe_path', 'a hard link to a file outside', [{ name: 'hard', type: 'link', linkname: '../out' }]],
  [
    'unsafe_path',
    'a hard link that moves a symbolic link',
    [
      { name: 'a/b/link', type: 'symlink', linkname: '../..' },
      { name: 'hard', type: 'link', linkname: 'a/b/link' },
    ],
  ],
  ['unsafe_path', 'a whiteout of what is above', [{ name: '.wh...' }]],
  ['special_entry', 'a device', [{ name: 'null', type: 'character-device' }]],
  ['special_entry', 'a disk', [{ name: 'sda', type: 'block-device' }]],
  ['special_entry', 'a pipe', [{ name: 'pipe', type: 'fifo' }]],
]
test.each(hostile)('refuses with %s %s', async (reason, _, entries) => {
  await expect(unpack(entries)).rejects.toMatchObject({ code: 'archive_invalid', reason })
  expect(existsSync(join(outer, 'out'))).toBe(false)
})

test('a chain of links whose targets climb in the middle never leaves the folder', async () => {
  await unpack([
    { name: 'd/e/f', type: 'symlink', linkname: '../..' },
    { name: 'escape', type: 'symlink', linkname: 'd/e/f/../out' },
  ])
  expect(await readlink(at('escape'))).toBe('d/e/out')
})

test('a file takes the place of a link instead of writing through it', async () => {
  await unpack([
    { name: 'target', content: 'old' },
    { name: 'x', type: 'symlink', linkname: 'target' },
    { name: 'x', content: 'new' },
  ])
  expect(await readFile(at('target'), 'utf8')).toBe('old')
  expect((await lstat(at('x'))).isFile()).toBe(true)
})

test('whiteouts remove what lower layers brought, and nothing of their own layer', async () => {
  await unpack([
    { name: 'gone' },
    { name: 'tree/old' },
    { name: 'opaque/old' },
    { name: 'opaque/both/old' },
    { name: 'kept' },
  ])
  await unpack([
    { name: '.wh.gone', content: '' },
    { name: '.wh.tree', content: '' },
    { name: 'opaque/both/new' },
    { name: 'opaque/.wh..wh..opq', content: '' },
    { name: 'own' },
    { name: '.wh.own', content: '' },
  ])
  const there = ['gone', 'tree', 'opaque/old', 'opaque/both/old', 'opaque/both/new', 'kept', 'own', '.wh.gone']
  expect(there.filter((path) => existsSync(at(path)))).toEqual(['opaque/both/new', 'kept', 'own'])
})

test('limits count what really comes out', async () => {
  const bomb = gzipSync(await makeTar([{ name: 'zeros', content: Buffer.alloc(5_000_000) }]))
  await expect(extractTar(inParts(bomb), folder, { totalBytes: 1_000_000 })).rejects.toMatchObject({
    reason: 'too_large',
  })
  const many = inParts(await makeTar([{ name: 'a' }, { name: 'b' }, { name: 'c' }]))
  await expect(extractTar(many, folder, { totalBytes: 1e9, entries: 2 })).rejects.toMatchObject({
    reason: 'too_many_entries',
  })
})

test.each<[string, (tar: Buffer) => Buffer]>([
  ['cut short', (tar) => tar.subarray(0, 700)],
  ['with a torn gzip', (tar) => gzipSync(tar).subarray(0, -20)],
  ['with a broken header', (tar) => Buffer.concat([Buffer.from('x'), tar.subarray(1)])],
])('refuses with damaged an archive %s', async (_, spoil) => {
  const tar = await makeTar([{ name: 'file', content: Buffer.alloc(1000, 'x') }])
  await expect(extractTar(inParts(spoil(tar)), folder, roomy)).rejects.toMatchObject({ reason: 'damaged' })
})

test('a source that breaks says so, and an abort ends the unpacking', async () => {
  async function* broken() {
    yield (await makeTar([{ name: 'file', content: Buffer.alloc(100_000) }])).subarray(0, 2000)
    throw new Error('connection lost')
  }
  await expect(extractTar(broken(), folder, roomy)).rejects.toThrow('connection lost')
  async function* silent() {
    yield (await makeTar([{ name: 'file', content: Buffer.alloc(100_000) }])).subarray(0, 2000)
    await new Promise((resolve) => setTimeout(resolve, 60_000).unref())
  }
  await expect(extractTar(silent(), folder, roomy, { signal: AbortSignal.timeout(50) })).rejects.toMatchObject({
    name: 'TimeoutError',
  })
})
