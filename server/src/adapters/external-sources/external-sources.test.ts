import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { networkInterfaces, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { externalSources } from './drivers.ts'
import { describeExternalSource, listAll, type SourcePlace } from './external-sources.suite.ts'
import type { SourceAddress } from './external-sources.ts'
import { isReachable } from './guarded-agents.ts'
import { type SourceServer, startBucket, startWebFolder } from './source-server.fixture.ts'

let work: string
let folder: string
let web: SourceServer
let bucket: SourceServer
const key = { id: 'AKIAEXAMPLE', secret: 'secret/with+signs' }
const credentials = { access_key_id: key.id, secret_access_key: key.secret }
beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), 'platform-mlops-sources-'))
  folder = join(work, 'shared')
  await mkdir(folder)
  web = await startWebFolder()
  bucket = await startBucket('pictures', key)
})
afterAll(async () => {
  await web?.close()
  await bucket?.close()
  await rm(work, { recursive: true, force: true })
})

const open = (address: SourceAddress, change: { hosts?: string[]; silence?: number } = {}) =>
  externalSources({
    dataDir: join(work, 'data'),
    sourceFolders: [folder],
    sourceAllowedHosts: change.hosts ?? ['127.0.0.1'],
    sourceSilenceSeconds: change.silence ?? 30,
  }).open(address)
const openWeb = (path = '/', change = {}) =>
  open({ kind: 'http', config: { url: web.url + path }, credentials: null }, change)
const openFolder = (path: string) => open({ kind: 'directory', config: { path }, credentials: null })
const openBucket = (change: object = {}, config: object = {}) =>
  open({
    kind: 's3',
    config: { bucket: 'pictures', endpoint: bucket.url, ...config },
    credentials,
    ...change,
  } as SourceAddress)
const going = new AbortController().signal

const served = (server: SourceServer) => ({
  put: async (path: string, content: string) => server.put(path, content),
  remove: async (path: string) => void server.files.delete(path),
})

describeExternalSource('a folder on the web', (): SourcePlace => ({ open: () => openWeb(), ...served(web) }))
describeExternalSource('a bucket', (): SourcePlace => ({ open: () => openBucket(), ...served(bucket) }))
describeExternalSource(
  'a directory',
  (): SourcePlace => ({
    open: () => openFolder(join(folder, 'plain')),
    async put(path, content) {
      await mkdir(dirname(join(folder, 'plain', path)), { recursive: true })
      await writeFile(join(folder, 'plain', path), content)
    },
    remove: (path) => rm(join(folder, 'plain', path)),
  }),
)

describe('isReachable', () => {
  test.each(['10.1.2.3', '192.168.7.7', '172.20.0.9', '8.8.8.8', '2001:4860::8888', 'fd12:3456::1'])(
    '%s: yes',
    (address) => {
      expect(isReachable(address)).toBe(true)
    },
  )

  const own = Object.values(networkInterfaces()).flatMap((list) => list ?? [])
  test.each([
    ...['127.0.0.1', '127.8.9.1', '0.0.0.0', '0.1.2.3', '169.254.169.254', '224.0.0.1', '255.255.255.255'],
    ...['::1', '::', 'fe80::1', 'fe80::1%eth0', 'ff02::1', '::ffff:127.0.0.1', '::ffff:a9fe:a9fe', '64:ff9b::7f00:1'],
    ...['2002:7f00:1::', 'fd00:ec2::254', '100.100.100.200', 'localhost', '0x7f.1', ''],
    ...own.map(({ address }) => address),
  ])('%s: no', (address) => {
    expect(isReachable(address)).toBe(false)
  })
})

describe('the address of a source', () => {
  const denied = { name: 'SourceError', fault: 'denied' }

  test.each(['http://127.0.0.1:PORT/', 'http://localhost:PORT/', 'http://[::ffff:127.0.0.1]:PORT/', 'http://0:PORT/'])(
    '%s is refused by default, before a byte is sent',
    async (url) => {
      const address = url.replace('PORT', new URL(web.url).port)
      const source = open({ kind: 'http', config: { url: address }, credentials: null }, { hosts: [] })
      await expect(listAll(source)).rejects.toMatchObject(denied)
    },
  )

  test('of a bucket is judged alike', async () => {
    const source = externalSources({
      dataDir: work,
      sourceFolders: [],
      sourceAllowedHosts: [],
      sourceSilenceSeconds: 30,
    })
    const config = { bucket: 'pictures', endpoint: bucket.url }
    await expect(listAll(source.open({ kind: 's3', config, credentials }))).rejects.toMatchObject(denied)
  })

  test('is asked again at every redirect', async () => {
    await expect(
      openWeb().read({ key: `${web.url}/inward`, size: null, version: null }, null, going),
    ).rejects.toMatchObject(denied)
    await expect(
      openWeb().read({ key: `${web.url}/loop`, size: null, version: null }, null, going),
    ).rejects.toMatchObject({ fault: 'invalid' })
  })
})

describe('a source that misbehaves', () => {
  const readIt = async (path: string, change = {}) => {
    const opened = await openWeb('/', change).read(
      { key: `${web.url}/${path}`, size: null, version: null },
      null,
      going,
    )
    return buffer(opened!.content)
  }

  test('is given up when it falls silent', async () => {
    web.put('slow.bin', 'x'.repeat(1000))
    web.mischief.set('slow.bin', 'stall')
    await expect(readIt('slow.bin', { silence: 1 })).rejects.toMatchObject({ fault: 'unreachable' })
  })

  test('is caught when it ends early', async () => {
    web.put('short.bin', 'x'.repeat(1000))
    web.mischief.set('short.bin', 'truncate')
    await expect(readIt('short.bin')).rejects.toMatchObject({ fault: 'unreachable' })
  })

  test('is told from one that is gone', async () => {
    web.put('failing.bin', 'x')
    web.mischief.set('failing.bin', 'error')
    await expect(readIt('failing.bin')).rejects.toMatchObject({ fault: 'unreachable' })
    await expect(readIt('nothing.bin')).rejects.toMatchObject({ fault: 'missing' })
  })
})

describe('a manifest', () => {
  test('names files by address, path, size and digest; what is wrong with an entry is said', async () => {
    const digest = 'ab'.repeat(32)
    web.put(
      'manifest.json',
      JSON.stringify({
        files: [
          'plain.txt',
          { url: '/a/b/deep.txt', path: 'train/deep.txt', size: 3, sha256: digest.toUpperCase() },
          { url: 'ftp://example.com/x' },
          { path: 'nothing' },
          { url: 'y.txt', sha256: 'zz' },
          null,
        ],
      }),
    )
    const listed = await listAll(openWeb('/manifest.json'))
    expect(listed).toMatchObject([
      { name: 'plain.txt', size: null, version: null },
      { name: 'train/deep.txt', key: `${web.url}/a/b/deep.txt`, size: 3, version: `sha256:${digest}` },
      { skipped: 'has no web address' },
      { name: 'nothing', skipped: 'has no address' },
      { skipped: 'has a sha256 that is no digest' },
      { skipped: 'has no address' },
    ])
    expect(await listAll(openWeb('/manifest.json'), 'train/')).toMatchObject([{ name: 'deep.txt' }])
  })

  test('that announces another length than the file has is caught', async () => {
    const object = { key: `${web.url}/plain.txt`, size: 999, version: null }
    await expect(openWeb().read(object, null, going)).rejects.toMatchObject({ fault: 'changed' })
  })

  test('that is no list, or no JSON, is no source', async () => {
    web.put('odd.json', '{"a": 1}')
    web.put('broken.json', '[')
    web.put('text.bin', 'hello')
    for (const path of ['/odd.json', '/broken.json', '/text.bin'])
      await expect(listAll(openWeb(path))).rejects.toMatchObject({ fault: 'invalid' })
  })
})

describe('a bucket', () => {
  test('of more than a page is listed to the end', async () => {
    const many = await startBucket('pictures', null)
    for (let i = 0; i < 2300; i++) many.put(`set/${i}.txt`, `${i}`)
    const config = { bucket: 'pictures', endpoint: many.url, prefix: '/set/' }
    const listed = await listAll(open({ kind: 's3', config, credentials: null }))
    expect(new Set(listed.map(({ name }) => name)).size).toBe(2300)
    await many.close()
  })

  test('refuses a wrong secret, and another bucket is missing', async () => {
    const wrong = { ...credentials, secret_access_key: 'wrong' }
    await expect(listAll(openBucket({ credentials: wrong }))).rejects.toMatchObject({ fault: 'denied' })
    await expect(listAll(openBucket({}, { bucket: 'nothing-here' }))).rejects.toMatchObject({ fault: 'missing' })
  })
})

describe('a password of a web folder', () => {
  test('is sent there and nowhere else', async () => {
    const closed = await startWebFolder({ password: 'öpen' })
    closed.put('a.txt', 'inside')
    closed.put('list.json', JSON.stringify([`${web.url}/plain.txt`]))
    const address = (password: string) =>
      open({ kind: 'http', config: { url: `${closed.url}/list.json` }, credentials: { username: 'reader', password } })
    await expect(listAll(address('wrong'))).rejects.toMatchObject({ fault: 'denied' })
    const elsewhere = await startWebFolder()
    elsewhere.put('plain.txt', 'x')
    closed.put('list.json', JSON.stringify([`${elsewhere.url}/plain.txt`]))
    const [object] = await listAll(address('öpen'))
    const opened = await address('öpen').read(object as never, null, going)
    expect((await buffer(opened!.content)).toString()).toBe('x')
    expect(elsewhere.authorizations).toEqual([undefined])
    expect(closed.authorizations.at(-1)).toMatch(/^Basic /)
    await elsewhere.close()
    await closed.close()
  })
})

describe('a directory', () => {
  test('outside of the allowed folders is refused, however it is spelled', async () => {
    await mkdir(join(work, 'private'))
    await symlink(join(work, 'private'), join(folder, 'way-out'))
    for (const path of [
      join(work, 'private'),
      `${folder}/../private`,
      join(folder, 'way-out'),
      '/',
      '/etc',
      `${folder}x`,
    ])
      await expect(listAll(openFolder(path))).rejects.toMatchObject({ name: 'SourceError' })
  })

  test('follows no link out of it, neither when listing nor when somebody puts one there later', async () => {
    const root = join(folder, 'linked')
    await mkdir(join(root, 'inner'), { recursive: true })
    await writeFile(join(work, 'private', 'secret.txt'), 'secret')
    await writeFile(join(root, 'inner', 'good.txt'), 'good')
    await symlink(join(work, 'private', 'secret.txt'), join(root, 'leak.txt'))
    await symlink(join(work, 'private'), join(root, 'leaks'))
    await symlink('inner/good.txt', join(root, 'alias.txt'))
    await symlink(root, join(root, 'inner', 'round'))
    const listed = (await listAll(openFolder(root))).sort((a, b) => (a.name < b.name ? -1 : 1))
    expect(listed).toMatchObject([
      { name: 'alias.txt', size: 4 },
      { name: 'inner/good.txt', size: 4 },
      { name: 'inner/round', skipped: 'is a link to a folder' },
      { name: 'leak.txt', skipped: 'is a link that leads out of the source' },
      { name: 'leaks', skipped: 'is a link that leads out of the source' },
    ])
    const good = { key: 'inner/good.txt', size: null, version: null }
    await rename(join(root, 'inner'), join(root, 'moved'))
    await symlink(join(work, 'private'), join(root, 'inner'))
    await writeFile(join(work, 'private', 'good.txt'), 'bait')
    await expect(openFolder(root).read(good, null, going)).rejects.toMatchObject({ fault: 'denied' })
  })

  test('that is written to while it is read is caught', async () => {
    const root = join(folder, 'changing')
    await mkdir(root)
    await writeFile(join(root, 'a.bin'), Buffer.alloc(3 << 20))
    const opened = await openFolder(root).read({ key: 'a.bin', size: null, version: null }, null, going)
    const reading = opened!.content[Symbol.asyncIterator]()
    await reading.next()
    await writeFile(join(root, 'a.bin'), Buffer.alloc(3 << 20, 1))
    const rest = async () => {
      while (!(await reading.next()).done);
    }
    await expect(rest()).rejects.toMatchObject({ fault: 'changed' })
  })
})
