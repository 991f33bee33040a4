import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { permissionsOf } from '../../platform/http/permissions.ts'
import { holdImage, publishImage, readImage, releaseImage, shareRepository } from './registry.api.ts'
import {
  configType,
  layerType,
  manifestType,
  type OciClient,
  pushImage,
  putManifest,
  sha256,
  signedIn,
} from './registry.fixture.ts'

let platform: TestPlatform
let developer: TestClient
let stranger: TestClient
let oci: OciClient
let ctx: TenantCtx

beforeAll(async () => {
  platform = await startTestPlatform()
  const tenant = await platform.tenant('acme')
  await platform.tenant('other')
  developer = await platform.member('acme', 'DEVELOPER')
  stranger = await platform.member('other', 'ADMIN')
  oci = await signedIn(platform, developer)
  ctx = {
    ...platform.services,
    kind: 'tenant',
    scope: { tenantId: tenant.id },
    tenant,
    requestId: 'test',
    audit: null,
    actor: { userId: developer.userId, email: developer.email, fullName: null, isSuperuser: false, sessionId: null },
    permissions: permissionsOf('ADMIN'),
  }
})
afterAll(() => platform?.stop())

const inTenant = <T>(work: Parameters<typeof transaction<T>>[2]) => transaction(platform.services.db, ctx.scope, work)
const inSystem = <T>(work: Parameters<typeof transaction<T>>[2]) => transaction(platform.services.db, 'system', work)
const host = () => new URL(platform.url).host

describe('GET /api/v1/registry/repositories', () => {
  test('200 lists what was pushed with size, tags and pulls, in any order asked for', async () => {
    const big = await pushImage(oci, 'acme/list/big', 'v1', 'x'.repeat(5000))
    await putManifest(oci, 'acme/list/big', 'v2', big.manifest)
    await pushImage(oci, 'acme/list/small', 'v1')
    await oci('GET', '/v2/acme/list/small/manifests/v1')
    const list = async (query: string) => (await developer.get(`/api/v1/registry/repositories?q=LIST&${query}`)).body
    expect((await list('sort=name')).items.map((item: { name: string }) => item.name)).toEqual([
      'acme/list/big',
      'acme/list/small',
    ])
    for (const sort of ['size', 'tags']) expect((await list(`sort=${sort}`)).items[0].name, sort).toBe('acme/list/big')
    expect((await list('')).items[0].name).toBe('acme/list/small')
    const [item] = (await list('sort=name&page_size=1')).items
    const size = big.manifest.length + big.layer.bytes.length + big.config.bytes.length
    expect(item).toMatchObject({
      address: `${host()}/acme/list/big`,
      tags: 2,
      manifests: 1,
      size_bytes: size,
      pull_count: 0,
      last_pulled_at: null,
    })
    await eventually(async () => (await list('sort=name&order=desc')).items[0].pull_count === 1)
  })

  test('400 names the sort keys', async () => {
    const reply = await developer.get('/api/v1/registry/repositories?sort=color')
    expect(reply.body.detail).toEqual({ allowed: ['updated_at', 'name', 'tags', 'size'] })
  })
})

describe('GET /api/v1/registry/repositories/{name+}/tags', () => {
  test('200 with slashes as they are, as %2F, and with the tenant in front or not', async () => {
    const image = await pushImage(oci, 'acme/team/app', 'v1')
    for (const name of ['team/app', 'team%2Fapp', 'acme/team/app', 'acme%2Fteam%2Fapp']) {
      const reply = await developer.get(`/api/v1/registry/repositories/${name}/tags?page_size=5`)
      expect(reply.status, name).toBe(200)
      expect(reply.body).toMatchObject({
        total: 1,
        page_size: 5,
        items: [
          {
            name: 'v1',
            digest: image.digest,
            kind: 'image',
            media_type: manifestType,
            reference: `${host()}/acme/team/app:v1@${image.digest}`,
          },
        ],
      })
    }
  })

  test('404 for another tenant’s and for what is none, the same', async () => {
    await pushImage(oci, 'acme/mine', 'v1')
    for (const name of ['mine', 'acme/mine', 'nothing', 'UPPER']) {
      expect((await stranger.get(`/api/v1/registry/repositories/${name}/tags`)).status, name).toBe(404)
    }
  })
})

describe('GET /api/v1/registry/repositories/{name+}/manifests/{reference+}', () => {
  test('200 by tag and digest with configuration, layers and an ETag', async () => {
    const image = await pushImage(oci, 'acme/detail', 'v1', 'detail')
    for (const reference of ['v1', image.digest, image.digest.replace(':', '%3A')]) {
      const reply = await developer.get(`/api/v1/registry/repositories/detail/manifests/${reference}`)
      expect(reply.status, reference).toBe(200)
      expect(reply.body).toMatchObject({
        repository: 'acme/detail',
        digest: image.digest,
        tags: ['v1'],
        config: { digest: image.config.digest, media_type: configType },
        image_config: { os: 'linux', config: { Labels: { text: 'detail' } } },
        layers: [{ digest: image.layer.digest, media_type: layerType, size_bytes: image.layer.bytes.length }],
        in_use_by: [],
      })
      expect(reply.headers.get('etag')).toBeTruthy()
    }
    expect((await developer.get('/api/v1/registry/repositories/detail/manifests/v9')).status).toBe(404)
    expect((await stranger.get('/api/v1/registry/repositories/detail/manifests/v1')).status).toBe(404)
  })
})

describe('DELETE /api/v1/registry/repositories/{name+}/tags/{tag}', () => {
  test('200 takes the tag and leaves the manifest; 404 the second time', async () => {
    const image = await pushImage(oci, 'acme/un/tag', 'v1')
    const path = '/api/v1/registry/repositories/un/tag/tags/v1'
    expect((await stranger.delete(path)).status).toBe(404)
    const reply = await developer.delete(path)
    expect(reply.body).toEqual({ repository: 'acme/un/tag', tag: 'v1', digest: image.digest })
    expect((await developer.delete(path)).status).toBe(404)
    expect((await oci('GET', `/v2/acme/un/tag/manifests/${image.digest}`)).status).toBe(200)
  })
})

describe('what an image or endpoint still needs', () => {
  test('409 names the holder, on every way to delete it; afterwards it goes', async () => {
    const image = await pushImage(oci, 'acme/held', 'v1')
    const hold = {
      repository: 'held',
      digest: image.digest,
      holder: 'endpoint:cats',
      reason: 'endpoint cats serves it',
    }
    await inTenant((tx) => holdImage(tx, ctx, hold))
    for (const path of ['held', 'held/tags/v1']) {
      const reply = await developer.delete(`/api/v1/registry/repositories/${path}`)
      expect(reply.status, path).toBe(409)
      expect(reply.body.detail.holders).toEqual([
        { holder: 'endpoint:cats', digest: image.digest, reason: 'endpoint cats serves it' },
      ])
    }
    for (const path of [
      'manifests/v1',
      `manifests/${image.digest}`,
      `blobs/${image.layer.digest}`,
      `blobs/${image.config.digest}`,
    ]) {
      const reply = await oci('DELETE', `/v2/acme/held/${path}`)
      expect([reply.status, reply.body.errors[0].code], path).toEqual([403, 'DENIED'])
    }
    await inTenant((tx) => releaseImage(tx, ctx, 'endpoint:cats'))
    const gone = await developer.delete('/api/v1/registry/repositories/held')
    expect(gone.body).toMatchObject({ repository: 'acme/held', tags: 1, manifests: 1 })
    expect((await developer.delete('/api/v1/registry/repositories/held')).status).toBe(404)
    expect((await oci('GET', '/v2/acme/held/manifests/v1')).status).toBe(404)
  })

  test('an image of a held index is held with it; unknown images can’t be held', async () => {
    const image = await pushImage(oci, 'acme/indexed', 'v1')
    const index = JSON.stringify({
      schemaVersion: 2,
      manifests: [{ mediaType: manifestType, digest: image.digest, size: image.manifest.length }],
    })
    const type = 'application/vnd.oci.image.index.v1+json'
    await putManifest(oci, 'acme/indexed', 'all', index, type)
    await inTenant((tx) =>
      holdImage(tx, ctx, { repository: 'indexed', digest: sha256(index), holder: 'image:1', reason: 'image 1' }),
    )
    expect((await oci('DELETE', `/v2/acme/indexed/manifests/${image.digest}`)).status).toBe(403)
    const unknown = { repository: 'indexed', digest: sha256('?'), holder: 'image:2', reason: '' }
    await expect(inTenant((tx) => holdImage(tx, ctx, unknown))).rejects.toMatchObject({ code: 'not_found' })
  })

  test('404 for another tenant’s repository', async () => {
    await pushImage(oci, 'acme/safe', 'v1')
    expect((await stranger.delete('/api/v1/registry/repositories/acme/safe')).status).toBe(404)
    expect((await oci('GET', '/v2/acme/safe/manifests/v1')).status).toBe(200)
  })
})

describe('publishImage and readImage', () => {
  test('an image from the blob store is pulled like a pushed one, and read back', async () => {
    const { blobs } = platform.services
    const put = async (text: string, mediaType: string) => ({
      mediaType,
      ...(await blobs.put(one(Buffer.from(text)))),
    })
    const config = await put(JSON.stringify({ os: 'linux', config: { User: '1000' } }), configType)
    const layer = await put('layer bytes', layerType)
    const manifest = await put(
      JSON.stringify({ schemaVersion: 2, mediaType: manifestType, config, layers: [layer] }),
      manifestType,
    )
    const image = { repository: 'models/cats', tag: 'v3', manifest, config, layers: [layer] }
    const published = await inTenant((tx) => publishImage(tx, ctx, image))
    expect(published).toEqual({
      repository: 'acme/models/cats',
      tag: 'v3',
      digest: manifest.digest,
      reference: `${host()}/acme/models/cats:v3@${manifest.digest}`,
    })
    expect(await inTenant((tx) => publishImage(tx, ctx, image))).toEqual(published)
    expect((await oci('GET', '/v2/acme/models/cats/manifests/v3')).headers.get('docker-content-digest')).toBe(
      manifest.digest,
    )
    expect((await oci('GET', `/v2/acme/models/cats/blobs/${layer.digest}`)).text).toBe('layer bytes')
    expect(await inTenant((tx) => readImage(tx, ctx, manifest.digest))).toEqual({
      digest: manifest.digest,
      mediaType: manifestType,
      config: { os: 'linux', config: { User: '1000' } },
      layers: [layer],
    })
  })
})

describe('the reserved namespace', () => {
  test('is pulled by the tenants it is shared with, pushed to by nobody', async () => {
    const image = await pushImage(oci, 'acme/base', 'v1', 'base')
    const system = { ...ctx, kind: 'system', scope: 'system' } as never
    const descriptor = (digest: string, mediaType: string, size: number) => ({ digest, mediaType, size })
    await inSystem((tx) =>
      publishImage(tx, system, {
        repository: 'base',
        tag: 'v1',
        manifest: descriptor(image.digest, manifestType, image.manifest.length),
        config: descriptor(image.config.digest, configType, image.config.bytes.length),
        layers: [descriptor(image.layer.digest, layerType, image.layer.bytes.length)],
      }),
    )
    const pull = () => oci('GET', '/v2/shared/base/manifests/v1')
    expect((await pull()).status).toBe(403)
    await inSystem((tx) => shareRepository(tx, system, { repository: 'base', tenantIds: [ctx.tenant.id] }))
    expect((await pull()).text).toBe(image.manifest)
    expect((await oci('GET', `/v2/shared/base/blobs/${image.layer.digest}`)).bytes).toEqual(image.layer.bytes)
    expect((await oci('GET', '/v2/shared/base/tags/list')).body.tags).toEqual(['v1'])
    const mount = `/v2/acme/mounted/blobs/uploads/?mount=${image.layer.digest}&from=shared/base`
    expect((await oci('POST', mount)).status).toBe(201)
    for (const [method, path] of [
      ['POST', 'blobs/uploads/'],
      ['PUT', 'manifests/v1'],
      ['DELETE', 'manifests/v1'],
      ['DELETE', `blobs/${image.layer.digest}`],
    ]) {
      expect((await oci(method!, `/v2/shared/base/${path}`)).status, path).toBe(403)
    }
    const foreign = await signedIn(platform, stranger)
    expect((await foreign('GET', '/v2/shared/base/manifests/v1')).status).toBe(403)
  })
})

async function* one(bytes: Buffer) {
  yield bytes
}
