import { spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer, json } from 'node:stream/consumers'
import { createGunzip } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
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
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'image-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

async function platform(name: string): Promise<{ store: BlobStore; builder: ImageBuilder }> {
  const store = await fileBlobStore({ folder: join(folder, name, 'blobs') })
  return { store, builder: layersImageBuilder({ store, cacheFolder: join(folder, name, 'layers') }) }
}

async function requestFor(store: BlobStore, more: Partial<ImageBuildRequest> = {}): Promise<ImageBuildRequest> {
  const files = [
    { path: 'model.onnx', ...(await store.put(Readable.from([weights]))) },
    { path: 'labels/names.json', ...(await store.put(Readable.from([Buffer.from('["rose"]')]))) },
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
    expect(run).toMatchObject({ status: 0, stdout: `${process.version}\n` })
  })

  test.skipIf(process.getuid?.() !== 0)('nothing outside of the image is needed: in a chroot, unprivileged', () => {
    const script = `
      const sharp = require('/srv/node_modules/sharp'), ort = require('/srv/node_modules/onnxruntime-node')
      sharp({ create: { width: 8, height: 8, channels: 3, background: 'red' } }).png().toBuffer().then((png) =>
        console.log(png.length > 50, typeof ort.InferenceSession.create,
          require('fs').readFileSync('/srv/model/model.onnx').length, process.getuid()))`
    const args = ['--userspec=65532:65532', root, '/usr/bin/node', '-e', script]
    spawnSync('chmod', ['755', root])
    const run = spawnSync('chroot', args, { encoding: 'utf8', env: { PATH: '/usr/bin:/usr/sbin:/bin:/sbin' } })
    expect(run).toMatchObject({ status: 0, stdout: `true function ${weights.length} 65532\n`, stderr: '' })
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

  test('paths that leave the model folder, and settings that are not the server’s, are refused', async () => {
    const request = await requestFor(store)
    for (const path of ['../escape', '/etc/passwd', 'a/../../b', 'a//b', '', '.', 'a\0b', 'a\\b']) {
      const files = [{ ...(request.model.files[0] as (typeof request.model.files)[0]), path }]
      await expect(builder.build({ ...request, model: { ...request.model, files } })).rejects.toThrow('unsafe paths')
    }
    const variant = { tag: 'mine', buildArgs: { NODE_OPTIONS: '--require /srv/model/x.js' } }
    await expect(builder.build({ ...request, variant })).rejects.toThrow('build_args.NODE_OPTIONS')
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
  expect((await buffer(await store.open(request.model.files[0]?.digest as string))).equals(weights)).toBe(true)
}, 60_000)
