/**
 * Building a serving image: the first one on a platform, the next ones, and GNU tar with gzip over the same files.
 *
 *     node bench/image-build.ts [model size in MB, 45 when absent]
 */
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BuiltImage } from '../server/src/adapters/image-builder/image-builder.ts'
import { layersImageBuilder } from '../server/src/adapters/image-builder/layers/layers.driver.ts'
import type { BlobStore } from '../server/src/platform/blobs/blob-store.ts'
import { fileBlobStore } from '../server/src/platform/blobs/file-blob-store.ts'

const modelMegabytes = Number(process.argv[2] ?? 45)
const folder = await mkdtemp(join(tmpdir(), 'bench-image-'))
try {
  const store = await fileBlobStore({ folder: join(folder, 'blobs') })
  const builder = layersImageBuilder({ store, cacheFolder: join(folder, 'layers') })
  const model = { path: 'model.onnx', ...(await store.put(pieces())) }
  const build = (version: string) =>
    timed(() =>
      builder.build({ model: { tenant: 'bench', name: 'bench', version, createdAt: new Date(0), files: [model] } }),
    )
  const first = await build('1')
  const next = await build('2')
  const root = await unpackShared(store, first.result)
  const peer = await timed(() => packWithTar(root))
  report({ first: first.seconds, next: next.seconds, peer: peer.seconds }, first.result)
} finally {
  await rm(folder, { recursive: true, force: true })
}

/** Random bytes: like trained weights, they do not compress. */
async function* pieces() {
  for (let piece = 0; piece < modelMegabytes; piece++) yield randomBytes(1_000_000)
}

async function timed<T>(act: () => Promise<T>): Promise<{ seconds: number; result: T }> {
  const started = performance.now()
  const result = await act()
  return { seconds: (performance.now() - started) / 1000, result }
}

async function unpackShared(store: BlobStore, image: BuiltImage): Promise<string> {
  const root = join(folder, 'root')
  await mkdir(root)
  for (const { digest } of image.layers.slice(0, 2)) {
    await store.materialise(digest, join(folder, digest))
    requireSuccess(spawnSync('tar', ['-xf', join(folder, digest), '-C', root, '--no-same-owner']))
  }
  return root
}

async function packWithTar(root: string): Promise<void> {
  requireSuccess(spawnSync('sh', ['-c', `tar -C '${root}' -c . | gzip -4 > '${folder}/peer.tgz'`]))
}

function requireSuccess({ status, stderr }: { status: number | null; stderr: Buffer }): void {
  if (status !== 0) throw new Error(stderr.toString())
}

function report(seconds: { first: number; next: number; peer: number }, image: BuiltImage): void {
  const megabytes = (bytes: number) => (bytes / 1e6).toFixed(1)
  console.log(`first image      ${seconds.first.toFixed(2)} s (all three layers written)`)
  console.log(`next image       ${seconds.next.toFixed(2)} s (model layer of ${modelMegabytes} MB written)`)
  console.log(`tar | gzip -4    ${seconds.peer.toFixed(2)} s (first two layers)`)
  console.log(`first / peer     ${(seconds.first / seconds.peer).toFixed(2)}`)
  console.log(`layers           ${image.layers.map(({ size }) => megabytes(size)).join(' + ')} MB`)
  console.log(`image            ${megabytes(image.sizeBytes)} MB`)
}
