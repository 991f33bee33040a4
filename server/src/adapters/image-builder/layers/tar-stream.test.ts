import { spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { extract, type Header } from 'tar-stream'
import { expect, test } from 'vitest'
import { textFile } from './disk-file.ts'
import { type LayerEntry, orderEntries, tarStream } from './tar-stream.ts'

const bytesOf = (entries: LayerEntry[]) => buffer(Readable.from(tarStream(entries)))

async function read(archive: Buffer): Promise<{ header: Header; text: string }[]> {
  const found: { header: Header; text: string }[] = []
  for await (const entry of Readable.from([archive]).pipe(extract())) {
    found.push({ header: entry.header, text: (await buffer(entry)).toString() })
  }
  return found
}

const longPath = `srv/${'a-rather-long-folder-name/'.repeat(8)}file.txt`
const entries: LayerEntry[] = [
  textFile('usr/bin/tool', 'x'.repeat(513), 0o755),
  textFile(longPath, 'far down'),
  textFile('srv/모델/étiquettes.json', '{}'),
  textFile('empty', ''),
  { kind: 'link', path: 'bin', target: 'usr/bin' },
  { kind: 'link', path: 'far', target: longPath },
  { kind: 'folder', path: 'tmp', mode: 0o1777 },
]

test('names, contents, modes and links survive, folders come before what they hold', async () => {
  const found = await read(await bytesOf(entries))
  const names = found.map(({ header }) => header.name.replace(/\/$/, ''))
  expect(names).toEqual(orderEntries(entries).map(({ path }) => path))
  for (const name of names)
    if (name.includes('/')) expect(names.slice(0, names.indexOf(name))).toContain(parentOf(name))
  const byName = new Map(found.map((entry) => [entry.header.name.replace(/\/$/, ''), entry]))
  expect(byName.get('usr/bin/tool')).toMatchObject({ text: 'x'.repeat(513), header: { mode: 0o755, type: 'file' } })
  expect(byName.get(longPath)?.text).toBe('far down')
  expect(byName.get('srv/모델/étiquettes.json')?.text).toBe('{}')
  expect(byName.get('bin')?.header).toMatchObject({ type: 'symlink', linkname: 'usr/bin' })
  expect(byName.get('far')?.header).toMatchObject({ type: 'symlink', linkname: longPath })
  expect(byName.get('tmp')?.header).toMatchObject({ type: 'directory', mode: 0o1777 })
})

const parentOf = (path: string) => path.slice(0, path.lastIndexOf('/'))

test('owner, user names and time are the same everywhere, and the order of entries does not matter', async () => {
  const archive = await bytesOf(entries)
  for (const { header } of await read(archive)) {
    expect(header).toMatchObject({ uid: 0, gid: 0, mtime: new Date(0), uname: '', gname: '' })
  }
  expect(await bytesOf(entries.toReversed())).toEqual(archive)
})

test('a file above 8 GiB keeps its length', async () => {
  const size = 9_000_000_001
  const archive = tarStream([{ ...textFile('large', ''), size, open: () => Readable.from([]) }])
  const headers: Uint8Array[] = []
  await expect(
    (async () => {
      for await (const block of archive) headers.push(block)
    })(),
  ).rejects.toThrow(`${size} were announced`)
  const header = await new Promise<Header>((resolve) => {
    const reader = extract().on('entry', resolve)
    for (const block of headers) reader.write(Buffer.from(block))
  })
  expect(header).toMatchObject({ name: 'large', size })
})

test('GNU tar reads it without a word', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tar-'))
  try {
    await writeFile(join(folder, 'layer.tar'), await bytesOf(entries))
    const listing = spawnSync('tar', ['-tf', 'layer.tar'], {
      cwd: folder,
      encoding: 'utf8',
      env: { PATH: process.env.PATH, LC_ALL: 'C.UTF-8' },
    })
    expect(listing).toMatchObject({ status: 0, stderr: '' })
    expect(listing.stdout.trimEnd().split('\n')).toHaveLength(orderEntries(entries).length)
    expect(listing.stdout).toContain(longPath)
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('a file that turns out longer or shorter than announced fails the layer', async () => {
  for (const size of [3, 5]) {
    await expect(bytesOf([{ ...textFile('file', 'four'), size }])).rejects.toThrow(`4 bytes, ${size} were announced`)
  }
})

test('two entries at one path, or an entry below a file, are refused', () => {
  expect(() => orderEntries([textFile('a', ''), textFile('a', '')])).toThrow('two layer entries at a')
  expect(() => orderEntries([textFile('a', ''), textFile('a/b', '')])).toThrow('not a folder')
})
