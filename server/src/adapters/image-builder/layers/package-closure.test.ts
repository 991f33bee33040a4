import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { packageClosure } from './package-closure.ts'
import { serverLayerEntries } from './server-layer.ts'

const target = { os: 'linux', cpu: 'x64', libc: 'glibc' }

let workspace: string
beforeEach(async () => {
  workspace = await mkdtemp(join(tmpdir(), 'closure-'))
})
afterEach(() => rm(workspace, { recursive: true }))

async function install(path: string, manifest: object, files: Record<string, string> = {}) {
  for (const [name, text] of Object.entries({ 'package.json': JSON.stringify(manifest), ...files })) {
    await mkdir(join(workspace, path, name, '..'), { recursive: true })
    await writeFile(join(workspace, path, name), text)
  }
}

const closure = async () => {
  const found = await packageClosure(join(workspace, 'server'), target)
  return found.map(({ folder }) => relative(workspace, folder))
}

test('a nested package wins over a hoisted one, and dependencies of dependencies are followed', async () => {
  await install('server', { dependencies: { a: '1' } })
  await install('node_modules/a', { dependencies: { b: '2' } })
  await install('node_modules/a/node_modules/b', { dependencies: { c: '1' } })
  await install('node_modules/b', {})
  await install('node_modules/c', { dependencies: { a: '1' } })
  expect(await closure()).toEqual(['node_modules/a', 'node_modules/a/node_modules/b', 'node_modules/c'])
})

test('packages for other systems and development dependencies stay out', async () => {
  const optionalDependencies = {
    'x-linux': '1',
    'x-mac': '1',
    'x-arm': '1',
    'x-musl': '1',
    'x-not-win': '1',
    'x-absent': '1',
  }
  await install('server', { dependencies: { x: '1' }, devDependencies: { d: '1' } })
  await install('node_modules/x', { optionalDependencies })
  await install('node_modules/x-linux', { os: ['linux'], cpu: ['x64'], libc: ['glibc'] })
  await install('node_modules/x-mac', { os: ['darwin'] })
  await install('node_modules/x-arm', { os: ['linux'], cpu: ['arm64'] })
  await install('node_modules/x-musl', { os: ['linux'], libc: ['musl'] })
  await install('node_modules/x-not-win', { os: ['!win32'] })
  await install('node_modules/d', {})
  expect(await closure()).toEqual(['node_modules/x', 'node_modules/x-linux', 'node_modules/x-not-win'])
})

test('a missing dependency is named; a missing optional peer is not missed', async () => {
  await install('server', { peerDependencies: { p: '1' }, peerDependenciesMeta: { p: { optional: true } } })
  expect(await closure()).toEqual([])
  await install('server', { dependencies: { gone: '1' } })
  await expect(closure()).rejects.toThrow('gone')
})

test('the server layer keeps code and licences, and leaves out tests, maps, types, prose and other binaries', async () => {
  await install(
    'server',
    { dependencies: { a: '1', own: '1' } },
    { 'src/main.ts': '', 'src/main.test.ts': '', 'x.ts': '' },
  )
  await install(
    'node_modules/a',
    {},
    {
      'index.js': '',
      'index.d.ts': '',
      'index.js.map': '',
      'README.md': '',
      LICENSE: '',
      'test/index.js': '',
      'lib/test/index.js': '',
      'bin/linux/x64/a.node': '',
      'bin/linux/arm64/a.node': '',
      'bin/darwin/x64/a.node': '',
    },
  )
  await install('packages/own', {}, { 'src/own.ts': '' })
  await symlink('../packages/own', join(workspace, 'node_modules/own'))
  const entries = await serverLayerEntries(join(workspace, 'server'), target)
  expect(entries.map(({ path }) => path).sort()).toEqual([
    'srv/node_modules/a/LICENSE',
    'srv/node_modules/a/bin/linux/x64/a.node',
    'srv/node_modules/a/index.js',
    'srv/node_modules/a/lib/test/index.js',
    'srv/node_modules/a/package.json',
    'srv/node_modules/own',
    'srv/packages/own/package.json',
    'srv/packages/own/src/own.ts',
    'srv/server/package.json',
    'srv/server/src/main.ts',
  ])
  expect(entries.find(({ path }) => path === 'srv/node_modules/own')).toMatchObject({ target: '../packages/own' })
})
