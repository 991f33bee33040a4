import { createHash } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { pack } from 'tar-stream'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { whenEnded } from '../compute.suite.ts'
import type { ImageRunConfig } from '../compute.ts'
import { materialiseImage } from './image-root.ts'
import { localCompute } from './local.driver.ts'

const digestOf = (bytes: Uint8Array | string) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
let folder: string
const made: string[] = []
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'image-'))
  made.push(folder)
})
afterAll(() => Promise.all(made.map((path) => rm(path, { recursive: true, force: true }))))

async function image(layers: Record<string, string>[], config: ImageRunConfig, spoil = (bytes: Buffer) => bytes) {
  const blobs = new Map<string, Buffer>()
  for (const layer of layers) {
    const archive = pack()
    for (const [name, content] of Object.entries(layer)) archive.entry({ name, mode: 0o755 }, content)
    archive.finalize()
    const bytes = spoil(gzipSync(await buffer(archive)))
    blobs.set(digestOf(bytes), bytes)
  }
  let opened = 0
  return {
    request: {
      folder: join(folder, 'images'),
      digest: digestOf(JSON.stringify([...blobs.keys()])),
      layers: [...blobs.keys()].map((digest) => ({ digest })),
      config: { config },
      open: async (digest: string) => {
        opened++
        return Readable.from([blobs.get(digest)!])
      },
    },
    opened: () => opened,
  }
}

const script = '#!/bin/sh\necho "$MODEL_DIR $PORT $*"; cat "$1"; pwd\n'

test('an image runs from its root, with its layers, arguments, variables and folder', async () => {
  const { request } = await image(
    [
      { 'app/run': 'old', 'data/model': 'weights\n', 'data/gone': 'x' },
      { 'app/run': script, 'data/.wh.gone': '' },
    ],
    {
      Entrypoint: ['/app/run'],
      Cmd: ['/data/model', '/no/such', '--port=/data'],
      Env: ['PATH=/app:/usr/bin:/bin', 'MODEL_DIR=/data', 'PORT=8080', 'BASE=/data'],
      WorkingDir: '/app',
    },
  )
  const { root, command, env, workingFolder } = await materialiseImage(request)
  expect(command).toEqual([`${root}/app/run`, `${root}/data/model`, '/no/such', '--port=/data'])
  expect(env).toEqual({
    PATH: `${root}/app:/usr/bin:/bin:/app`,
    MODEL_DIR: `${root}/data`,
    PORT: '8080',
    BASE: '/data',
  })
  expect(await readdir(join(root, 'data'))).toEqual(['model'])
  const compute = await localCompute({ folder: join(folder, 'work'), log: console })
  const handle = await compute.start({ name: 'image', command, env, folder: workingFolder })
  expect(await whenEnded(compute, handle)).toMatchObject({ exitCode: 0 })
  expect((await compute.logs(handle, 0, 1000)).toString()).toBe(
    `${root}/data 8080 ${root}/data/model /no/such --port=/data\nweights\n${root}/app\n`,
  )
})

test('a program without a folder is found along the PATH of the image', async () => {
  const { request } = await image([{ 'opt/bin/tool': script }], { Cmd: ['tool'], Env: ['PATH=/bin:/opt/bin'] })
  const { root, command } = await materialiseImage(request)
  expect(command).toEqual([`${root}/opt/bin/tool`])
})

test('many callers at once share one unpacking, and later ones find it', async () => {
  const { request, opened } = await image([{ a: 'a' }, { b: 'b' }], { Cmd: ['/a'] })
  await Promise.all(Array.from({ length: 5 }, () => materialiseImage(request)))
  await materialiseImage(request)
  expect(opened()).toBe(2)
})

test('an unpacking that fails leaves nothing, and the next one succeeds', async () => {
  const { request } = await image([{ a: 'a' }], { Cmd: ['/a'] })
  const torn = async (digest: string) => Readable.from([(await buffer(await request.open(digest))).subarray(0, 40)])
  await expect(materialiseImage({ ...request, open: torn })).rejects.toMatchObject({ code: 'archive_invalid' })
  expect(await readdir(request.folder)).toEqual([])
  expect(await readFile((await materialiseImage(request)).command[0]!, 'utf8')).toBe('a')
})

test('all layers together keep to the limit', async () => {
  const { request } = await image([{ a: 'a'.repeat(6000) }, { b: 'b'.repeat(6000) }], { Cmd: ['/a'] })
  await expect(materialiseImage({ ...request, maxBytes: 12_000 })).rejects.toMatchObject({ reason: 'too_large' })
})

test('no argument and no working folder leads out of the root', async () => {
  await writeFile(join(folder, 'outside'), 'x')
  const { request } = await image([{ 'bin/true': script }], {
    Cmd: ['/bin/true', '/../../outside'],
    WorkingDir: '../../..',
  })
  const { root, command, workingFolder } = await materialiseImage(request)
  expect(command[1]).toBe('/../../outside')
  expect(join(workingFolder)).toBe(join(root, '/'))
})

test.each([[undefined], [['missing-tool']]])('an image whose program is %j is refused', async (Cmd) => {
  const { request } = await image([{ a: 'a' }], { Cmd })
  await expect(materialiseImage(request)).rejects.toThrow(/program/)
})

test('work from an image alone: its program, folder and variables, and the address it listens at', async () => {
  const server = `#!/bin/sh
cd "$(dirname "$PORT_FILE")" && echo "$HOST $PORT $GIVEN" && pwd
echo 4711 > port; read -r _ < data 2>/dev/null; sleep 60
`
  const { request } = await image([{ 'app/run': server }], {
    Entrypoint: ['/app/run'],
    Env: ['HOST=0.0.0.0', 'PORT=8080', 'GIVEN=image', 'PATH=/usr/bin:/bin'],
  })
  const { folder: _, ...stored } = request
  const compute = await localCompute({ folder: join(folder, 'work'), log: { warn: () => {} } })
  await compute.prepareImage(stored)
  const handle = await compute.start({
    name: 'served',
    command: [],
    image: stored,
    env: { GIVEN: 'own' },
    listens: true,
  })
  try {
    const address = async () => {
      const status = await compute.status(handle)
      return status.state === 'running' ? status.address : status.state
    }
    await expect.poll(address, { timeout: 60_000 }).toBe('127.0.0.1:4711')
    expect((await compute.logs(handle, 0, 1000)).toString()).toContain('127.0.0.1 0 own')
    await compute.keepImages(new Set([request.digest]))
    expect((await readdir(join(folder, 'work', '.images'))).length).toBe(1)
    await compute.keepImages(new Set())
    expect(await readdir(join(folder, 'work', '.images'))).toEqual([])
    expect((await compute.list()).length).toBe(1)
  } finally {
    await compute.remove(handle)
  }
})

test('work without a program, or without a folder, is refused', async () => {
  const compute = await localCompute({ folder: join(folder, 'work'), log: { warn: () => {} } })
  await expect(compute.start({ name: 'a', command: [], env: {}, folder })).rejects.toThrow(/program/)
  await expect(compute.start({ name: 'a', command: ['/bin/true'], env: {} })).rejects.toThrow(/folder/)
})
