import { access } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { pack } from 'tar-stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { archivePath, unpackedPath } from './import-files.ts'
import {
  configType,
  indexType,
  layerType,
  manifestType,
  type OciClient,
  sha256,
  sha512,
  signedIn,
} from './registry.fixture.ts'

let platform: TestPlatform
let developer: TestClient
let viewer: TestClient
let stranger: TestClient
let oci: OciClient
beforeAll(async () => {
  platform = await startTestPlatform()
  await platform.tenant('acme')
  await platform.tenant('other')
  developer = await platform.member('acme', 'DEVELOPER')
  viewer = await platform.member('acme', 'VIEWER')
  stranger = await platform.member('other', 'ADMIN')
  oci = await signedIn(platform, developer)
})
afterAll(() => platform?.stop())

type Files = Record<string, string | Buffer | { link: string }>

async function tar(files: Files): Promise<Buffer> {
  const archive = pack()
  for (const [name, content] of Object.entries(files)) {
    if (typeof content === 'object' && 'link' in content)
      archive.entry({ name, type: 'symlink', linkname: content.link })
    else archive.entry({ name }, content)
  }
  archive.finalize()
  return buffer(archive)
}

/** As `docker save` writes it, the second layer behind a symbolic link. */
function dockerFiles(names: string[] | null, text = 'docker'): Files & { config: string } {
  const layers = [Buffer.from(`first layer of ${text}`), Buffer.from(`second layer of ${text}`)]
  const config = JSON.stringify({ os: 'linux', rootfs: { type: 'layers', diff_ids: layers.map(sha256) } })
  const entry = { Config: 'config.json', RepoTags: names, Layers: ['a/layer.tar', 'b/layer.tar'] }
  return {
    'a/layer.tar': layers[0]!,
    'c.tar': layers[1]!,
    'b/layer.tar': { link: '../c.tar' },
    'config.json': config,
    'manifest.json': JSON.stringify([entry]),
    config,
  }
}

function ociFiles(annotations: Record<string, string>, text = 'oci') {
  const files: Files = { 'oci-layout': '{"imageLayoutVersion":"1.0.0"}' }
  const keep = (content: string | Buffer, mediaType: string, digest = sha256(content)) => {
    files[`blobs/${digest.replace(':', '/')}`] = content
    return { mediaType, digest, size: Buffer.byteLength(content) }
  }
  const config = keep(JSON.stringify({ os: 'linux', text }), configType)
  const layer = gzipSync(`layer of ${text}`)
  const layers = [keep(layer, layerType), keep('wide', layerType, sha512('wide'))]
  const manifest = keep(JSON.stringify({ schemaVersion: 2, mediaType: manifestType, config, layers }), manifestType)
  const index = (entries: object[]) => JSON.stringify({ schemaVersion: 2, manifests: entries })
  files['index.json'] = index([{ ...manifest, annotations }])
  return { files, manifest, layer: layers[0]!, index, keep }
}

const create = (body: object) => developer.post('/api/v1/registry/imports', body)
const sendChunk = (client: TestClient, id: string, bytes: Buffer, contentRange: string | null) =>
  client.call('PATCH', `/api/v1/registry/imports/${id}/chunks`, {
    body: bytes as Buffer<ArrayBuffer>,
    headers: {
      'content-type': 'application/octet-stream',
      ...(contentRange ? { 'content-range': contentRange } : {}),
    },
  })
const whole = (bytes: Buffer) => `bytes 0-${bytes.length - 1}/${bytes.length}`

/** Imports an archive and waits for its end. */
async function importArchive(archive: Buffer, names: object = {}) {
  const { id } = (await create({ size_bytes: archive.length, ...names })).body
  expect((await sendChunk(developer, id, archive, whole(archive))).status).toBe(200)
  const started = await developer.post(`/api/v1/registry/imports/${id}:start`)
  expect([started.status, started.body.status]).toEqual([200, 'RUNNING'])
  return eventually(async () => {
    const { body } = await viewer.get(`/api/v1/registry/imports/${id}`)
    return ['READY', 'FAILED'].includes(body.status) ? body : null
  })
}

const isThere = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

describe('POST /api/v1/registry/imports', () => {
  test('201 gives the session with its chunk size', async () => {
    const reply = await create({ size_bytes: 10, repository: 'team/app', tag: 'v1', filename: 'app.tar' })
    expect(reply.status).toBe(201)
    expect(reply.body).toMatchObject({
      status: 'UPLOADING',
      phase: 'upload',
      progress: 0,
      received_bytes: 0,
      chunk_size: 33_554_432,
      image: null,
      error: null,
    })
  })

  test('422 for names that are none and for no size', async () => {
    for (const body of [{}, { size_bytes: 0 }, { size_bytes: 1, repository: 'Upper' }, { size_bytes: 1, tag: '.x' }]) {
      expect((await create(body)).status, JSON.stringify(body)).toBe(422)
    }
  })
})

describe('PATCH /api/v1/registry/imports/{import_id}/chunks', () => {
  const archive = Buffer.from('0123456789')

  test('200 in order; 416 tells where to go on; a wrong chunk leaves nothing', async () => {
    const { id } = (await create({ size_bytes: 10 })).body
    const first = await sendChunk(developer, id, archive.subarray(0, 4), 'bytes 0-3/10')
    expect([first.status, first.body.received_bytes]).toEqual([200, 4])
    for (const range of ['bytes 0-3/10', 'bytes 6-9/10']) {
      const reply = await sendChunk(developer, id, archive.subarray(0, 4), range)
      expect([reply.status, reply.body.detail]).toEqual([416, { offset: 4 }])
    }
    expect((await sendChunk(developer, id, archive.subarray(4, 6), 'bytes 4-9/10')).status).toBe(400)
    expect((await sendChunk(developer, id, archive.subarray(4), 'bytes 4-9/11')).status).toBe(400)
    for (const range of [null, '', '4-9/10', 'bytes 9-4/10', 'bytes 4-9/*']) {
      expect((await sendChunk(developer, id, archive.subarray(4), range)).status, String(range)).toBe(422)
    }
    const early = await developer.post(`/api/v1/registry/imports/${id}:start`)
    expect([early.status, early.body.detail]).toEqual([409, { offset: 4 }])
    expect((await sendChunk(developer, id, archive.subarray(4), 'bytes 4-9/10')).body.received_bytes).toBe(10)
  })

  test('413 for a chunk that is too long, 403 for who may only look, 404 for others', async () => {
    const size = 40 * 1024 * 1024
    const { id } = (await create({ size_bytes: size })).body
    const long = await sendChunk(
      developer,
      id,
      Buffer.alloc(33 * 1024 * 1024),
      `bytes 0-${33 * 1024 * 1024 - 1}/${size}`,
    )
    expect([long.status, long.body.detail.chunk_size]).toEqual([413, 33_554_432])
    expect((await sendChunk(viewer, id, archive, `bytes 0-9/${size}`)).status).toBe(403)
    expect((await sendChunk(stranger, id, archive, `bytes 0-9/${size}`)).status).toBe(404)
  })

  test('409 after it was canceled, and the bytes are gone', async () => {
    const { id } = (await create({ size_bytes: 10 })).body
    await sendChunk(developer, id, archive.subarray(0, 4), 'bytes 0-3/10')
    const path = archivePath(platform.services.config, id)
    expect(await isThere(path)).toBe(true)
    expect((await developer.delete(`/api/v1/registry/imports/${id}`)).status).toBe(409)
    const canceled = await developer.post(`/api/v1/registry/imports/${id}:cancel`)
    expect([canceled.status, canceled.body.status]).toEqual([200, 'CANCELED'])
    expect((await developer.post(`/api/v1/registry/imports/${id}:cancel`)).status).toBe(409)
    expect((await sendChunk(developer, id, archive.subarray(4), 'bytes 4-9/10')).status).toBe(409)
    expect(await isThere(path)).toBe(false)
    expect((await developer.delete(`/api/v1/registry/imports/${id}`)).status).toBe(200)
    expect((await developer.get(`/api/v1/registry/imports/${id}`)).status).toBe(404)
  })
})

describe('an archive of docker save', () => {
  test.each([
    ['plain', (bytes: Buffer) => bytes],
    ['gzip', gzipSync],
    ['zstd', zstdCompressSync],
  ])('%s: becomes an image under its own name, layers behind links included', async (kind, compress) => {
    const { config, ...files } = dockerFiles([`registry.example:5000/team/${kind}:v2`])
    const record = await importArchive(compress(await tar(files)) as Buffer)
    expect(record).toMatchObject({ status: 'READY', phase: 'done', progress: 100, error: null })
    const digest = record.image.split('@')[1]
    expect(record.image).toBe(`${new URL(platform.url).host}/acme/team/${kind}:v2@${digest}`)
    const manifest = await oci('GET', `/v2/acme/team/${kind}/manifests/v2`)
    expect(sha256(manifest.bytes)).toBe(digest)
    expect(manifest.body.config.digest).toBe(sha256(config))
    const second = await oci('GET', `/v2/acme/team/${kind}/blobs/${manifest.body.layers[1].digest}`)
    expect(second.text).toBe('second layer of docker')
  })

  test('is stored under the name that was asked for, with every tag of the archive when none was', async () => {
    const { config: _config, ...files } = dockerFiles(['a:1', 'b/c:2'])
    const archive = await tar(files)
    const asked = await importArchive(archive, { repository: 'wanted', tag: 'now' })
    expect(asked.images).toHaveLength(1)
    expect(asked.image).toContain('/acme/wanted:now@sha256:')
    const own = await importArchive(archive)
    expect(own.images.map((name: string) => name.split('@')[0]!.split('/').slice(1).join('/'))).toEqual([
      'acme/a:1',
      'acme/b/c:2',
    ])
  })
})

describe('an OCI layout', () => {
  test('keeps its manifests byte for byte', async () => {
    const { files, manifest, layer } = ociFiles({ 'org.opencontainers.image.ref.name': 'v3' })
    const record = await importArchive(await tar(files), { repository: 'from-oci' })
    expect(record.image).toBe(`${new URL(platform.url).host}/acme/from-oci:v3@${manifest.digest}`)
    expect((await oci('GET', '/v2/acme/from-oci/manifests/v3')).text).toBe(
      files[`blobs/${manifest.digest.replace(':', '/')}`],
    )
    expect((await oci('GET', `/v2/acme/from-oci/blobs/${layer.digest}`)).status).toBe(200)
    expect((await oci('GET', `/v2/acme/from-oci/blobs/${sha512('wide')}`)).text).toBe('wide')
  })

  test('with several platforms comes as its index, platforms that were left out are missed by nobody', async () => {
    const { files, manifest, index, keep } = ociFiles({})
    const absent = { mediaType: manifestType, digest: sha256('absent'), size: 6 }
    const list = keep(index([manifest, absent]), indexType)
    files['index.json'] = index([{ ...list, annotations: { 'io.containerd.image.name': 'docker.io/library/multi:1' } }])
    const record = await importArchive(await tar(files))
    expect(record.image).toContain(`/acme/library/multi:1@${list.digest}`)
    const path = '/v2/acme/library/multi/manifests'
    expect((await oci('GET', `${path}/1`)).headers.get('content-type')).toBe(indexType)
    expect((await oci('GET', `${path}/${manifest.digest}`)).status).toBe(200)
  })
})

describe('an archive that is refused', () => {
  const failure = async (files: Files | Buffer, names: object = { repository: 'refused' }) => {
    const record = await importArchive(Buffer.isBuffer(files) ? files : await tar(files), names)
    expect(record).toMatchObject({ status: 'FAILED', image: null })
    expect(record.error.message.length).toBeGreaterThan(10)
    expect(await isThere(archivePath(platform.services.config, record.id))).toBe(false)
    expect(await isThere(unpackedPath(platform.services.config, record.id))).toBe(false)
    return record.error.code
  }
  const docker = (change: (files: Files) => void, names: string[] | null = null) => {
    const { config: _config, ...files } = dockerFiles(names)
    change(files)
    return files
  }

  test('no tar, and one that ends too early', async () => {
    expect(await failure(Buffer.from('this is no archive'.repeat(100)))).toBe('bad_tar')
    const archive = await tar(docker(() => undefined))
    expect(await failure(archive.subarray(0, 700))).toBe('bad_tar')
    expect(await failure(gzipSync(archive).subarray(0, 150))).toBe('bad_tar')
  })

  test('paths that lead out, as entries, as links and in the manifest', async () => {
    expect(await failure(docker((files) => Object.assign(files, { '../out': 'x' })))).toBe('bad_tar')
    expect(
      await failure(docker((files) => Object.assign(files, { 'b/layer.tar': { link: '../../../etc/passwd' } }))),
    ).toBe('bad_tar')
    const entry = { Config: '../../../../../../../../etc/hostname', RepoTags: null, Layers: [] }
    expect(await failure({ 'manifest.json': JSON.stringify([entry]) })).toBe('missing_blob')
  })

  test('no manifest, a broken one, one that lacks a layer', async () => {
    expect(await failure({ 'readme.txt': 'hello' })).toBe('no_manifest')
    expect(await failure({ 'manifest.json': '{' })).toBe('no_manifest')
    expect(await failure({ 'manifest.json': '[]' })).toBe('no_manifest')
    expect(await failure(docker((files) => void delete files['a/layer.tar']))).toBe('missing_blob')
  })

  test('content that is not what it is called', async () => {
    expect(await failure(docker((files) => Object.assign(files, { 'a/layer.tar': 'another layer' })))).toBe(
      'digest_mismatch',
    )
    const { files, layer } = ociFiles({})
    files[`blobs/${layer!.digest.replace(':', '/')}`] = 'another layer'
    expect(await failure(files)).toBe('digest_mismatch')
  })

  test('an image without a name, several images under one name', async () => {
    expect(
      await failure(
        docker(() => undefined),
        {},
      ),
    ).toBe('no_name')
    const { files, manifest, index } = ociFiles({})
    files['index.json'] = index([manifest, manifest])
    expect(await failure(files)).toBe('several_images')
  })
})

describe('GET /api/v1/registry/imports', () => {
  test('200 lists the tenant’s own, the newest first, and by days only what ended lately', async () => {
    const { id } = (await create({ size_bytes: 5 })).body
    const list = (await viewer.get('/api/v1/registry/imports?days=0')).body
    expect(list.items[0].id).toBe(id)
    expect(list.total).toBe(list.items.length)
    const recent = (await viewer.get('/api/v1/registry/imports?days=1')).body
    expect(recent.total).toBe(list.total)
    expect((await stranger.get('/api/v1/registry/imports')).body).toEqual({ items: [], total: 0 })
    expect((await stranger.get(`/api/v1/registry/imports/${id}`)).status).toBe(404)
    expect((await viewer.get('/api/v1/registry/imports?days=-1')).status).toBe(422)
  })
})
