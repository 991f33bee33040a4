import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { crc32, deflateRawSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ArchiveError } from './archive-error.ts'
import { readZip, type ZipProgress } from './zip-archive.ts'
import type { ZipLimits } from './zip-directory.ts'

interface MadeEntry {
  name: string | Buffer
  content?: Uint8Array
  method?: number
  flags?: number
  mode?: number
  /** What the directory announces instead of the truth. */
  size?: number
  compressedSize?: number
  crc?: number
  /** Points at the local header of this entry instead of its own. */
  sameDataAs?: number
  packed?: Buffer
  zip64?: boolean
  /** Made by Windows, by an old packer. */
  dos?: boolean
}

/** Writes a ZIP by hand, so that it can say anything. @source APPNOTE 6.3.10 */
function makeZip(entries: MadeEntry[]): Buffer {
  const parts: Buffer[] = []
  const directory: Buffer[] = []
  const starts: number[] = []
  let at = 0
  for (const entry of entries) {
    const name = Buffer.from(entry.name)
    const content = entry.content ?? Buffer.from('content')
    const method = entry.method ?? 8
    const packed = entry.packed ?? (method === 8 ? deflateRawSync(content) : Buffer.from(content))
    const [crc, flags] = [entry.crc ?? crc32(content), entry.flags ?? 0x800]
    const [size, compressed] = [entry.size ?? content.length, entry.compressedSize ?? packed.length]
    const start = entry.sameDataAs === undefined ? at : starts[entry.sameDataAs]!
    starts.push(start)
    const extra = Buffer.alloc(entry.zip64 ? 28 : 0)
    if (entry.zip64) {
      extra.writeUInt16LE(1, 0)
      extra.writeUInt16LE(24, 2)
      for (const [i, value] of [size, compressed, start].entries()) extra.writeBigUInt64LE(BigInt(value), 4 + 8 * i)
    }
    const fixed = (value: number) => (entry.zip64 ? 0xffffffff : value)
    const common = Buffer.alloc(26)
    common.writeUInt16LE(20, 0)
    common.writeUInt16LE(flags, 2)
    common.writeUInt16LE(method, 4)
    common.writeUInt32LE(crc, 10)
    common.writeUInt32LE(fixed(compressed), 14)
    common.writeUInt32LE(fixed(size), 18)
    common.writeUInt16LE(name.length, 22)
    if (entry.sameDataAs === undefined) {
      const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, name, packed])
      parts.push(local)
      at += local.length
    }
    const tail = Buffer.alloc(14)
    tail.writeUInt32LE(((entry.mode ?? 0o100644) << 16) >>> 0, 6)
    tail.writeUInt32LE(fixed(start), 10)
    common.writeUInt16LE(extra.length, 24)
    const made = Buffer.from(`PK\x01\x02\x14${entry.dos ? '\0' : '\x03'}`)
    directory.push(Buffer.concat([made, common, tail, name, extra]))
  }
  const directoryBytes = Buffer.concat(directory)
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 'latin1')
  end.writeUInt16LE(entries.length, 8)
  end.writeUInt16LE(entries.length, 10)
  end.writeUInt32LE(directoryBytes.length, 12)
  end.writeUInt32LE(at, 16)
  return Buffer.concat([...parts, directoryBytes, end])
}

let folder: string
let count = 0
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zip-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const roomy: ZipLimits = { totalBytes: 1e9 }

async function read(zip: Buffer | MadeEntry[], limits: ZipLimits = roomy) {
  const path = join(folder, `${count++}.zip`)
  await writeFile(path, Buffer.isBuffer(zip) ? zip : makeZip(zip))
  const files = new Map<string, Buffer>()
  const visited: string[] = []
  const work = readZip(path, limits, async (member) => {
    visited.push(member.path)
    files.set(member.path, await buffer(member.open()))
  })
  const outcome = await work.then(
    ({ skipped }) => ({ skipped, error: null }),
    (error: ArchiveError) => ({ skipped: [], error }),
  )
  return { files, visited, ...outcome }
}

async function refusal(zip: Buffer | MadeEntry[], limits = roomy) {
  const { error, visited } = await read(zip, limits)
  if (!error) throw new Error('the archive was taken')
  return { error, visited }
}

describe('readZip', () => {
  test('gives stored, deflated, large and ZIP64 members whole', async () => {
    const large = Buffer.concat([randomBytes(700_000), Buffer.alloc(300_000)])
    const { files, skipped } = await read([
      { name: 'a/stored.txt', method: 0, content: Buffer.from('stored') },
      { name: 'a/deflated.txt' },
      { name: 'large', content: large },
      { name: 'large stored', content: large, method: 0 },
      { name: 'zip64', zip64: true },
      { name: 'empty', content: Buffer.alloc(0) },
      { name: 'nested.zip', content: makeZip([{ name: 'inner' }]) },
    ])
    expect(skipped).toEqual([])
    expect([...files.keys()]).toEqual([
      'a/stored.txt',
      'a/deflated.txt',
      'large',
      'large stored',
      'zip64',
      'empty',
      'nested.zip',
    ])
    expect(files.get('a/stored.txt')?.toString()).toBe('stored')
    expect(files.get('large')?.equals(large)).toBe(true)
    expect(files.get('large stored')?.equals(large)).toBe(true)
    expect(files.get('zip64')?.toString()).toBe('content')
  })

  test('an empty archive has no members', async () => {
    expect((await read([])).visited).toEqual([])
  })

  test('passes over directories and droppings', async () => {
    const names = ['dir/', '__MACOSX/._a', 'x/.DS_Store', 'x/Thumbs.db', '', './']
    expect(await read(names.map((name) => ({ name })))).toMatchObject({ visited: [], skipped: [] })
  })

  test('reads names as UTF-8, Korean Windows or DOS wrote them, in NFC', async () => {
    const names = [
      Buffer.from('한글.jpg'.normalize('NFD')),
      Buffer.from([0xb0, 0xa1, 0xb3, 0xaa, 0x2e, 0x6a]),
      Buffer.from([0x4d, 0x81, 0x6c, 0x6c, 0x65, 0x72]),
      'a//./b',
    ]
    expect((await read(names.map((name) => ({ name, flags: 0 })))).visited).toEqual([
      '한글.jpg',
      '가나.j',
      'Müller',
      'a/b',
    ])
  })

  test('skips duplicates, unknown methods, damage and unusable names, with the reason', async () => {
    const packed = deflateRawSync(randomBytes(5000))
    const { visited, files, skipped } = await read([
      { name: 'twice', content: Buffer.from('first') },
      { name: './twice', content: Buffer.from('second') },
      { name: 'bzip2', method: 12 },
      { name: 'torn', packed: packed.subarray(0, 3000), size: 5000 },
      { name: 'crc', crc: 1 },
      { name: 'line\nbreak' },
      { name: 'x'.repeat(256) },
      { name: 'good' },
    ])
    expect(files.get('twice')?.toString()).toBe('first')
    expect(visited).toEqual(['twice', 'torn', 'crc', 'good'])
    expect(skipped.map(({ path, reason }) => [path.slice(0, 5), reason])).toEqual([
      ['bzip2', 'its compression (bzip2) is not supported; use Deflate'],
      ['line\uFFFD', 'the name holds control characters'],
      ['xxxxx', 'the name is too long'],
      ['twice', 'another entry has the same name'],
      ['torn', 'the content is damaged'],
      ['crc', 'the content is damaged'],
    ])
  })

  test('takes backslashes of old Windows packers for slashes, and is no less careful then', async () => {
    expect((await read([{ name: 'train\\cat\\1.jpg', dos: true }])).visited).toEqual(['train/cat/1.jpg'])
    expect((await refusal([{ name: 'a\\..\\..\\b', dos: true }])).error.reason).toBe('unsafe_path')
    expect((await refusal([{ name: '\\\\server\\b', dos: true }])).error.reason).toBe('unsafe_path')
  })

  test('skips what has no place in a folder: a file where others need one, paths without end, resource forks', async () => {
    const { visited, skipped } = await read([
      { name: 'a' },
      { name: 'a/b/c' },
      { name: 'a/b' },
      { name: 'x/y.jpg' },
      { name: 'x/._y.jpg' },
      { name: 'x/._alone' },
      { name: Array.from({ length: 6 }, () => 'p'.repeat(200)).join('/') },
      { name: 'nul\0' },
    ])
    expect(visited).toEqual(['a/b/c', 'x/y.jpg', 'x/._alone'])
    expect(skipped.map(({ path, reason }) => [path.slice(0, 9), reason])).toEqual([
      ['ppppppppp', 'the path is too long'],
      ['nul\uFFFD', 'the name holds control characters'],
      ['a', 'other entries lie in a folder of this name'],
      ['a/b', 'other entries lie in a folder of this name'],
      ['x/._y.jpg', 'a resource fork of macOS'],
    ])
  })

  test('refuses a directory with more entries than it announces, and a part of a split archive', async () => {
    const zip = makeZip([{ name: 'a' }, { name: 'b' }])
    const end = zip.lastIndexOf('PK\x05\x06', undefined, 'latin1')
    const fewer = Buffer.from(zip)
    fewer.writeUInt16LE(1, end + 8)
    fewer.writeUInt16LE(1, end + 10)
    expect((await refusal(fewer)).error.message).toMatch(/more entries than it announces/)
    const part = Buffer.from(zip)
    part.writeUInt16LE(1, end + 4)
    expect((await refusal(part)).error.message).toMatch(/split archive/)
  })

  const innocent = { name: 'innocent' }
  test.each<[string, string, MadeEntry[]]>([
    ['unsafe_path', 'a way up', [innocent, { name: 'a/../../etc/passwd' }]],
    ['unsafe_path', 'an absolute path', [innocent, { name: '/etc/passwd' }]],
    ['unsafe_path', 'a drive', [innocent, { name: 'C:evil' }]],
    ['unsafe_path', 'backslashes', [innocent, { name: '..\\..\\evil' }]],
    ['unsafe_path', 'a way up in what would be ignored', [innocent, { name: '__MACOSX/../../x/' }]],
    ['special_entry', 'a symbolic link', [innocent, { name: 'link', mode: 0o120777 }]],
    ['special_entry', 'a device', [innocent, { name: 'null', mode: 0o020666 }]],
    ['encrypted', 'an encrypted entry', [innocent, { name: 'secret', flags: 0x801 }]],
    ['encrypted', 'strong encryption', [innocent, { name: 'secret', flags: 0x841 }]],
    ['overlap', 'two entries on the same bytes', [innocent, { name: 'again', sameDataAs: 0 }]],
    ['overlap', 'data reaching into the directory', [innocent, { name: 'long', compressedSize: 30 }]],
    ['size_mismatch', 'a stored entry of two lengths', [innocent, { name: 'lie', method: 0, size: 9 }]],
    ['ratio', 'a bomb', [innocent, { name: 'bomb', content: Buffer.alloc(5_000_000) }]],
    ['too_large', 'more than there is room for', [innocent, { name: 'big', size: 2e9 }]],
  ])('refuses with %s, before any visit, an archive with %s', async (reason, _, entries) => {
    const { error, visited } = await refusal(entries)
    expect(error).toMatchObject({ code: 'archive_invalid', reason })
    expect(visited).toEqual([])
  })

  test('names the entry at fault', async () => {
    expect((await refusal([{ name: 'a/../b' }])).error.message).toMatch(/"a\/\.\.\/b"/)
  })

  test.each([1000, 400_000])('refuses with size_mismatch a member of %i bytes that yields more or fewer', async (n) => {
    const content = randomBytes(n)
    expect((await refusal([{ name: 'more', content, size: n - 1 }])).error.reason).toBe('size_mismatch')
    expect((await refusal([{ name: 'fewer', content, size: n + 1 }])).error.reason).toBe('size_mismatch')
  })

  test('counts entries against the limit', async () => {
    const entries = Array.from({ length: 11 }, (_, n) => ({ name: `${n}` }))
    expect((await refusal(entries, { totalBytes: 1e9, entries: 10 })).error.reason).toBe('too_many_entries')
  })

  test('reads forty thousand files that lie in twenty million folders', async () => {
    const depth = '/a'.repeat(490)
    const deep = Array.from({ length: 40_000 }, (_, n) => ({
      name: `${n}${depth}`,
      content: Buffer.alloc(0),
      method: 0,
    }))
    const { visited, skipped, error } = await read([...deep, { name: '7', method: 0 }])
    expect(error).toBeNull()
    expect(visited).toHaveLength(40_000)
    expect(skipped).toEqual([{ path: '7', reason: 'other entries lie in a folder of this name' }])
  })

  test('refuses what is no archive, and a torn one', async () => {
    expect((await refusal(Buffer.from('%PDF-1.7 PK\x03\x04'))).error.reason).toBe('not_an_archive')
    expect((await refusal(Buffer.alloc(0))).error.reason).toBe('not_an_archive')
    expect((await refusal(makeZip([innocent]).subarray(0, -5))).error.reason).toBe('damaged')
    const broken = makeZip([innocent, { name: 'other' }])
    broken.write('XX', broken.indexOf('PK\x01\x02'), 'latin1')
    expect((await refusal(broken)).error.reason).toBe('damaged')
  })

  test("a visitor's own failure ends the reading and is passed on", async () => {
    const path = join(folder, 'visitor.zip')
    await writeFile(path, makeZip([{ name: 'a' }, { name: 'b' }]))
    const visited: string[] = []
    const work = readZip(path, roomy, async ({ path }) => {
      visited.push(path)
      throw new Error('disk full')
    })
    await expect(work).rejects.toThrow('disk full')
    expect(visited).toEqual(['a'])
  })

  test('visits one at a time, or as many as asked, with progress, until aborted', async () => {
    const path = join(folder, 'many.zip')
    await writeFile(path, makeZip(Array.from({ length: 20 }, (_, n) => ({ name: `${n}` }))))
    for (const concurrency of [1, 4]) {
      let [now, most] = [0, 0]
      const progress: ZipProgress[] = []
      const visit = async () => {
        most = Math.max(most, ++now)
        await sleep(1)
        now--
      }
      await readZip(path, roomy, visit, { concurrency, onProgress: (done) => progress.push(done) })
      expect(most).toBe(concurrency)
      expect(progress.map(({ members }) => members)).toEqual(Array.from({ length: 20 }, (_, n) => n + 1))
    }
    const stop = new AbortController()
    const aborted = readZip(path, roomy, async () => stop.abort(new Error('enough')), { signal: stop.signal })
    await expect(aborted).rejects.toThrow('enough')
  })
})
