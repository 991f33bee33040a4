import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../main-job/client.ts'
import { type OwnPlatform, startOwnPlatform } from '../main-job/own-platform.ts'
import { importEnd, sendArchive } from './archive-import.ts'
import { type ImageLayout, writeImageLayout } from './image-layout.ts'
import { has, openRegistrySession, type RegistrySession, run } from './registry-session.ts'

const email = 'admin@example.com'
const password = 'a password for the test'
const mebibyte = 1024 * 1024
let folder: string
let platform: OwnPlatform
let session: RegistrySession

async function start(): Promise<void> {
  platform = await startOwnPlatform(folder, email, password)
  session = await openRegistrySession(platform.url, email, password)
}

/** The power goes, and comes back. */
async function crash(): Promise<void> {
  await platform.kill()
  await start()
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'platform-mlops-registry-crash-'))
  await start()
})
afterAll(async () => {
  await platform?.stop()
  await rm(folder, { recursive: true, force: true })
})

const sha256 = (bytes: Uint8Array) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
const octets = { 'content-type': 'application/octet-stream' }

const pushBlob = (name: string, bytes: Buffer<ArrayBuffer>) =>
  session.v2('POST', `${name}/blobs/uploads/?digest=${sha256(bytes)}`, { body: bytes, headers: octets })

const push = (image: ImageLayout, name: string) =>
  run('skopeo', [
    ...['--insecure-policy', 'copy', '-q', '--dest-tls-verify=false', '--dest-creds', `me:${session.token}`],
    ...[`oci:${image.folder}:v1`, `docker://${session.host}/default/${name}:v1`],
  ])

/** Reads every blob of an image again and checks it against its digest. */
async function requireWhole(name: string, { manifest, config, layers }: ImageLayout): Promise<void> {
  const bytesOf = async (path: string) => {
    const response = await session.v2('GET', `default/${name}/${path}`)
    expect(response.status, path).toBe(200)
    return Buffer.from(await response.arrayBuffer())
  }
  expect(sha256(await bytesOf('manifests/v1'))).toBe(manifest.digest)
  for (const { digest } of [config, ...layers]) expect(sha256(await bytesOf(`blobs/${digest}`))).toBe(digest)
}

/** A body whose sending stops in the middle and waits. */
function halfSent(bytes: Buffer): { body: RequestInit['body']; halfWay: Promise<void> } {
  const { promise: halfWay, resolve: tell } = Promise.withResolvers<void>()
  const parts = (async function* () {
    yield bytes.subarray(0, bytes.length / 2)
    tell()
    await new Promise(() => undefined)
  })()
  return { body: Readable.toWeb(Readable.from(parts)) as unknown as RequestInit['body'], halfWay }
}

describe('kill -9 of the server', () => {
  test('in the middle of pushes: what was acknowledged is whole, the rest is not there, and can be sent again', async () => {
    const acknowledged = randomBytes(3 * mebibyte)
    expect((await pushBlob('default/crash', acknowledged)).status).toBe(201)
    const started = await session.v2('POST', 'default/crash/blobs/uploads/')
    const upload = started.headers.get('location')!.replace('/v2/', '')
    const first = randomBytes(mebibyte)
    expect((await session.v2('PATCH', upload, { body: first, headers: octets })).status).toBe(202)

    const unfinished = randomBytes(8 * mebibyte)
    const chunk = halfSent(unfinished)
    const whole = halfSent(unfinished)
    const pending = [
      session.v2('PATCH', upload, { body: chunk.body, headers: octets }),
      session.v2('POST', `default/crash/blobs/uploads/?digest=${sha256(unfinished)}`, {
        body: whole.body,
        headers: octets,
      }),
    ].map((request) => request.catch(() => null))
    await Promise.all([chunk.halfWay, whole.halfWay])
    await crash()
    await Promise.all(pending)

    const kept = await session.v2('GET', `default/crash/blobs/${sha256(acknowledged)}`)
    expect(sha256(Buffer.from(await kept.arrayBuffer()))).toBe(sha256(acknowledged))
    expect((await session.v2('HEAD', `default/crash/blobs/${sha256(unfinished)}`)).status).toBe(404)
    const state = await session.v2('GET', upload)
    expect([state.status, state.headers.get('range')]).toEqual([204, `0-${mebibyte - 1}`])
    const together = Buffer.concat([first, unfinished])
    const end = await session.v2('PUT', `${upload}&digest=${sha256(together)}`, { body: unfinished, headers: octets })
    expect(end.status).toBe(201)
    expect((await pushBlob('default/crash', unfinished)).status).toBe(201)
    const again = await session.v2('GET', `default/crash/blobs/${sha256(together)}`)
    expect(sha256(Buffer.from(await again.arrayBuffer()))).toBe(sha256(together))
  }, 60_000)

  test.skipIf(!has('skopeo'))(
    'while a client pushes images: those it was told of are whole, the next try succeeds',
    async () => {
      const images: ImageLayout[] = []
      for (let i = 0; i < 3; i++) images.push(await writeImageLayout(join(folder, `image-${i}`), [20 * mebibyte]))
      await push(images[0]!, 'pushed/0')
      const interrupted = push(images[1]!, 'pushed/1').then(
        () => true,
        () => false,
      )
      await new Promise((resolve) => setTimeout(resolve, 150))
      await crash()
      const wasTold = await interrupted
      await requireWhole('pushed/0', images[0]!)
      if (wasTold) await requireWhole('pushed/1', images[1]!)
      await push(images[1]!, 'pushed/1')
      await requireWhole('pushed/1', images[1]!)
    },
    60_000,
  )

  test.skipIf(!has('skopeo'))(
    'in the middle of an import: it goes on and ends as it would have',
    async () => {
      const image = await writeImageLayout(join(folder, 'imported'), [120 * mebibyte, mebibyte])
      const archive = join(folder, 'imported.tar')
      await run('skopeo', ['--insecure-policy', 'copy', '-q', `oci:${image.folder}:v1`, `oci-archive:${archive}:v1`])
      const id = await sendArchive(session, archive, { repository: 'imported' })
      await until('the run', 20, async () => {
        const { phase, progress } = await session.client.get(`/api/v1/registry/imports/${id}`)
        return phase === 'inspect' || progress > 50 ? phase : null
      })
      await crash()
      const record = await importEnd(session, id)
      expect(record).toMatchObject({ status: 'READY', error: null })
      expect(record.image).toContain(`@${image.manifest.digest}`)
      await requireWhole('imported', image)
      expect(await readdir(join(folder, 'data/registry/imports'))).toEqual([])
    },
    120_000,
  )

  test('in the middle of deletions: each either happened or did not', async () => {
    const config = Buffer.from('{}')
    await pushBlob('default/deleted', config)
    const manifestOf = (n: number) => {
      const descriptor = { mediaType: 'application/vnd.oci.empty.v1+json', digest: sha256(config), size: 2 }
      const mediaType = 'application/vnd.oci.image.manifest.v1+json'
      return JSON.stringify({
        schemaVersion: 2,
        mediaType,
        config: descriptor,
        layers: [],
        annotations: { n: String(n) },
      })
    }
    const names = Array.from({ length: 40 }, (_, n) => n)
    for (const n of names) {
      const headers = { 'content-type': 'application/vnd.oci.image.manifest.v1+json' }
      const put = await session.v2('PUT', `default/deleted/manifests/t${n}`, { body: manifestOf(n), headers })
      expect(put.status).toBe(201)
    }
    const digests = names.map((n) => sha256(Buffer.from(manifestOf(n))))
    const told: number[] = []
    const deletions = names.map(async (n) => {
      const reply = await session.v2('DELETE', `default/deleted/manifests/${digests[n]}`).catch(() => null)
      if (reply?.status === 202) told.push(n)
    })
    await Promise.race(deletions)
    await crash()
    await Promise.all(deletions)
    const { tags } = (await (await session.v2('GET', 'default/deleted/tags/list')).json()) as { tags: string[] }
    for (const n of told) expect(tags).not.toContain(`t${n}`)
    for (const n of names) {
      const byDigest = await session.v2('GET', `default/deleted/manifests/${digests[n]}`)
      expect(byDigest.status === 200, `t${n}`).toBe(tags.includes(`t${n}`))
    }
  }, 60_000)
})
