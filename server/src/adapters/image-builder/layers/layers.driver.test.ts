import { spawn, spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { buffer, json } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { createGunzip } from 'node:zlib'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { probeClasses, probeGraph, writeModelFolder } from '../../../../../model-server/test/model-folders.ts'
import type { BlobStore } from '../../../platform/blobs/blob-store.ts'
import { fileBlobStore } from '../../../platform/blobs/file-blob-store.ts'
import type { BuiltImage, ImageBuilder, ImageBuildRequest } from '../image-builder.ts'
import { layersImageBuilder } from './layers.driver.ts'

interface Config {
  config: { Entrypoint: string[]; Env: string[]; User: string; Labels: Record<string, string> }
  rootfs: { diff_ids: string[] }
  created: string
}

const weights = randomBytes(3_000_001)
const isRoot = process.getuid?.() === 0
let folder: string
let probe: { onnx: Buffer; json: Buffer }
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'image-'))
  const modelFolder = await writeModelFolder(probeGraph(), probeClasses)
  probe = {
    onnx: await readFile(join(modelFolder, 'model.onnx')),
    json: await readFile(join(modelFolder, 'model.json')),
  }
  await rm(modelFolder, { recursive: true })
})
afterAll(() => rm(folder, { recursive: true, force: true }))

async function platform(name: string): Promise<{ store: BlobStore; builder: ImageBuilder }> {
  const store = await fileBlobStore({ folder: join(folder, name, 'blobs') })
  return { store, builder: layersImageBuilder({ store, cacheFolder: join(folder, name, 'layers') }) }
}

async function requestFor(store: BlobStore, more: Partial<ImageBuildRequest> = {}): Promise<ImageBuildRequest> {
  const put = async (path: string, bytes: Buffer) => ({ path, ...(await store.put(Readable.from([bytes]))) })
  const files = [
    await put('model.onnx', probe.onnx),
    await put('model.json', probe.json),
    await put('weights/large.bin', weights),
  ]
  const createdAt = new Date('2026-01-02T03:04:05.678Z')
  return { model: { tenant: 'default', name: 'flowers', version: '3', createdAt, files }, ...more }
}

const blobCount = async (name: string) =>
  (await readdir(join(folder, name, 'blobs/sha256'), { recursive: true, withFileTypes: true })).filter((e) =>
    e.isFile(),
  ).length

describe('an image built from layers', () => {
  let store: BlobStore
  let builder: ImageBuilder
  let image: BuiltImage
  let config: Config
  let root: string
  const shares: number[] = []
  const lines: string[] = []

  beforeAll(async () => {
    ;({ store, builder } = await platform('first'))
    const progress = (share: number) => void shares.push(share)
    image = await builder.build(await requestFor(store, { progress, log: (line) => void lines.push(line) }))
    config = (await json(await store.open(image.config.digest))) as Config
    root = join(folder, 'root')
    await mkdir(root)
    for (const [index, { digest }] of image.layers.entries()) {
      await store.materialise(digest, join(folder, `layer-${index}`))
      const unpacked = spawnSync('tar', ['-xf', join(folder, `layer-${index}`), '-C', root, '--no-same-owner', '-p'])
      expect(unpacked.stderr.toString()).toBe('')
    }
  }, 180_000)

  test('the manifest describes what lies in the store', async () => {
    const manifest = (await json(await store.open(image.manifest.digest))) as object
    expect(manifest).toEqual({
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      config: image.config,
      layers: image.layers,
    })
    for (const { digest, size } of [image.manifest, image.config, ...image.layers]) {
      expect(await store.stat(digest)).toMatchObject({ digest, size })
    }
  })

  test('diff_ids are the digests of the uncompressed layers', async () => {
    expect(config.rootfs.diff_ids).toHaveLength(image.layers.length)
    for (const [index, { mediaType }] of image.layers.entries()) {
      const packed = createReadStream(join(folder, `layer-${index}`))
      const plain = mediaType.endsWith('+gzip') ? packed.pipe(createGunzip()) : packed
      const hash = createHash('sha256')
      for await (const piece of plain) hash.update(piece)
      expect(`sha256:${hash.digest('hex')}`).toBe(config.rootfs.diff_ids[index])
    }
  }, 60_000)

  test('the configuration names the start, the user, the model and its date', () => {
    expect(config.config).toMatchObject({
      Entrypoint: ['/usr/bin/node', '/srv/model-server/src/main.ts'],
      User: '65532:65532',
      Labels: { 'org.opencontainers.image.version': '3', 'io.platform-mlops.tenant': 'default' },
    })
    expect(config.config.Env).toContain('MODEL_NAME=flowers')
    expect(config.created).toBe('2026-01-02T03:04:05.678Z')
  })

  test('progress rises to 1, and each layer has its line in the log', () => {
    expect(shares.length).toBeGreaterThan(20)
    expect(shares).toEqual(shares.toSorted((a, b) => a - b))
    expect(shares.at(-1)).toBe(1)
    expect(lines.filter((line) => line.includes('written in'))).toHaveLength(3)
  })

  test('the program of the image runs from the unpacked layers', () => {
    const run = spawnSync(join(root, 'usr/bin/node'), ['-p', 'process.version'], { encoding: 'utf8', env: {} })
    expect(run.stdout).toMatch(/^v(2[4-9]|[3-9]\d)\./)
  })

  /** Starts the entry point as the image's configuration has it, on a free port of this machine alone. */
  async function label(command: (entrypoint: string[]) => string[]): Promise<string> {
    const [program, ...args] = command(config.config.Entrypoint) as [string, ...string[]]
    const ofImage = Object.fromEntries(config.config.Env.map((line) => line.split('=') as [string, string]))
    const env = { ...ofImage, HOST: '127.0.0.1', PORT: '0', WORKERS: '1' }
    const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
    const errors = buffer(child.stderr)
    try {
      const ended = once(child, 'exit').then(async () => Promise.reject(new Error(`the server ended: ${await errors}`)))
      ended.catch(() => {})
      const [line] = await Promise.race([once(createInterface(child.stdout), 'line'), ended])
      const url = `http://127.0.0.1:${JSON.parse(line).listening.port}`
      while (!(await Promise.race([fetch(`${url}/ping`), ended])).ok) await delay(20)
      const image = await sharp({ create: { width: 20, height: 20, channels: 3, background: 'red' } })
        .png()
        .toBuffer()
      const headers = { 'content-type': 'image/png' }
      const answer = await fetch(`${url}/invocations`, { method: 'POST', headers, body: Uint8Array.from(image) })
      const { predictions } = (await answer.json()) as { predictions: { label: string }[] }
      return predictions[0]?.label ?? 'none'
    } finally {
      child.kill('SIGKILL')
    }
  }

  test('the unpacked image serves its model, found without a word about where it lies', async () => {
    expect(await label((entrypoint) => entrypoint.map((path) => join(root, path)))).toBe('red')
  })

  test.skipIf(!isRoot)('nothing outside of the image is needed: it serves from a chroot, unprivileged', async () => {
    spawnSync('chmod', ['755', folder, root])
    const chroot = ['/usr/sbin/chroot', '--userspec', config.config.User, root]
    expect(await label((entrypoint) => [...chroot, ...entrypoint])).toBe('red')
  })

  const skopeo = spawnSync('skopeo', ['--version']).status === 0
  test.skipIf(!skopeo)(
    'skopeo reads and copies it',
    async () => {
      const layout = join(folder, 'layout')
      await mkdir(join(layout, 'blobs/sha256'), { recursive: true })
      await writeFile(join(layout, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
      await writeFile(join(layout, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [image.manifest] }))
      for (const { digest } of [image.manifest, image.config, ...image.layers]) {
        await store.materialise(digest, join(layout, 'blobs', digest.replace(':', '/')))
      }
      const inspected = spawnSync('skopeo', ['inspect', `oci:${layout}`], { encoding: 'utf8' })
      expect(inspected.stderr).toBe('')
      expect(JSON.parse(inspected.stdout)).toMatchObject({
        Digest: image.manifest.digest,
        Os: 'linux',
        Layers: image.layers.map(({ digest }) => digest),
      })
      const target = `docker-archive:${join(folder, 'copy.tar')}:flowers:3`
      const copied = spawnSync('skopeo', ['--insecure-policy', 'copy', '-q', `oci:${layout}`, target], {
        encoding: 'utf8',
      })
      expect(copied, 'docker-archive unpacks every layer and checks it against its diff_id').toMatchObject({
        status: 0,
      })
    },
    120_000,
  )

  test('built again: same digest, nothing compressed anew', async () => {
    const again: string[] = []
    const before = await blobCount('first')
    const second = await builder.build(await requestFor(store, { log: (line) => void again.push(line) }))
    expect(second).toEqual(image)
    expect(again.filter((line) => line.includes('already in the store'))).toHaveLength(2)
    expect(await blobCount('first')).toBe(before)
  })

  test('a cached layer that the store lost is made again, with the same digest', async () => {
    const server = image.layers[1]?.digest as string
    await store.delete(server)
    expect(await builder.build(await requestFor(store))).toEqual(image)
    expect(await store.stat(server)).not.toBeNull()
  }, 60_000)

  test('another platform gives the same bytes, whatever the order of files and labels', async () => {
    const other = await platform('second')
    const labels = { b: '2', a: '1' }
    const expected = await builder.build(await requestFor(store, { labels }))
    const request = await requestFor(other.store, { labels: { a: '1', b: '2' } })
    request.model.files.reverse()
    expect(await other.builder.build(request)).toEqual(expected)
  }, 120_000)

  test('a cancel in the model layer leaves nothing new', async () => {
    const before = await blobCount('first')
    const abort = new AbortController()
    const request = await requestFor(store, { signal: abort.signal, progress: (share) => share > 0.3 && abort.abort() })
    request.model.version = '4'
    await expect(builder.build(request)).rejects.toThrow('aborted')
    expect(await blobCount('first')).toBe(before)
  })

  test('paths that leave the model folder are refused', async () => {
    const request = await requestFor(store)
    for (const path of ['../escape', '/etc/passwd', 'a/../../b', 'a//b', '', '.', 'a\0b', 'a\\b']) {
      const files = [{ ...(request.model.files[0] as (typeof request.model.files)[0]), path }]
      await expect(builder.build({ ...request, model: { ...request.model, files } })).rejects.toThrow('unsafe paths')
    }
  })

  test('a builder variant sets whole numbers of the model server, and nothing else', async () => {
    const variant = { tag: 'wide', buildArgs: { WORKERS: 2, MAX_BATCH: '64' } }
    const built = await builder.build(await requestFor(store, { variant }))
    const { config: wide } = (await json(await store.open(built.config.digest))) as Config
    expect(wide.Env.slice(-2)).toEqual(['MAX_BATCH=64', 'WORKERS=2'])
    expect(wide.Labels).toMatchObject({ 'io.platform-mlops.builder': 'wide' })
    expect(built.layers).toEqual(image.layers)
    for (const buildArgs of [
      { NODE_OPTIONS: '1' },
      { LD_PRELOAD: '/srv/model/x.so' },
      { WORKERS: '2\nX=1' },
      { WORKERS: null },
    ]) {
      const name = Object.keys(buildArgs)[0]
      const refused = builder.build(await requestFor(store, { variant: { tag: 'bad', buildArgs } }))
      await expect(refused).rejects.toMatchObject({ status: 422, detail: [{ loc: ['build_args', name] }] })
    }
  })
})

test('a cancel in the first layer leaves neither blob nor cache entry', async () => {
  const { store, builder } = await platform('canceled')
  const abort = new AbortController()
  const request = await requestFor(store, { signal: abort.signal, progress: (share) => share > 0.1 && abort.abort() })
  const before = await blobCount('canceled')
  await expect(builder.build(request)).rejects.toThrow('aborted')
  expect(await blobCount('canceled')).toBe(before)
  expect(await readdir(join(folder, 'canceled')).then((names) => names.sort())).toEqual(['blobs'])
  expect((await buffer(await store.open(request.model.files[2]?.digest as string))).equals(weights)).toBe(true)
}, 60_000)

test('check passes here, and names what is wrong: a Node too old, a server that is not installed', async () => {
  const { store, builder } = await platform('checked')
  await builder.check()
  const nodePath = join(folder, 'old-node')
  await writeFile(nodePath, '#!/bin/sh\necho v20.19.0\n', { mode: 0o755 })
  const cacheFolder = join(folder, 'checked/layers')
  const old = layersImageBuilder({ store, cacheFolder, nodePath })
  await expect(old.check()).rejects.toMatchObject({ status: 503, message: expect.stringContaining('v20.19.0') })
  const serverFolder = join(folder, 'bare-server')
  await mkdir(serverFolder)
  await writeFile(join(serverFolder, 'package.json'), '{"dependencies":{"absent-package":"1"}}')
  const bare = layersImageBuilder({ store, cacheFolder, serverFolder })
  await expect(bare.check()).rejects.toThrow('absent-package')
})
